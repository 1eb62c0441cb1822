/* A browser starts no Worker for a page that is opened as a file. There a hidden frame does its work, so that the search
   works without a server, too. */
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = "<!doctype html>";
      frame.addEventListener("load", () => this.start(frame.contentWindow, String(url)), { once: true });
      document.body.appendChild(frame);
    }

    start(inside, url) {
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = url;
      script.addEventListener("load", () => {
        this.postMessage = (data) => inside.dispatchEvent(new inside.MessageEvent("message", { data }));
        this.waiting.forEach((data) => this.postMessage(data));
      });
      inside.document.body.appendChild(script);
    }

    postMessage(data) {
      this.waiting.push(data);
    }
  };
}
