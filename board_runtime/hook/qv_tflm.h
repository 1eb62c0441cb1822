/* TensorFlow Lite Micro (C++): a profiler that names the output of each operator when it has its value. The interpreter
   calls its profiler at the boundary of each operator, in running order; nothing is copied.

       static const char *const names[] = {"conv0", "dw1"};  // the operators' outputs, in the model that the host judges by
       static qv::Profiler profiler(names, 2);
       static tflite::MicroInterpreter interpreter(model, resolver, arena, sizeof arena, nullptr, &profiler);
       profiler.Watch(&interpreter, model);                   // after AllocateTensors

   In the function that qv_hook calls for inference: copy the input from the hook's buffer to interpreter.input(0),
   profiler.Begin(), interpreter.Invoke(). */
#ifndef QV_TFLM_H
#define QV_TFLM_H
#include "qv_hook.h"
#include <tensorflow/lite/micro/micro_interpreter.h>
#include <tensorflow/lite/micro/micro_profiler_interface.h>

namespace qv {
  class Profiler : public tflite::MicroProfilerInterface {
  public:
    /* names: of the first output of each operator of the main graph, in running order; NULL for one that is not reported. */
    Profiler(const char *const *names, uint32_t count) : names_(names), count_(count) {}

    void Watch(tflite::MicroInterpreter * interpreter, const tflite::Model *model) {
      interpreter_ = interpreter;
      graph_ = model->subgraphs()->Get(0);
    }

    /* With false, tensors of rank 4 are given as they are in memory, with their channels last. */
    void ChannelsFirst(bool on) { channels_first_ = on; }

    void Begin() { next_ = 0; }

    uint32_t BeginEvent(const char *tag) override {
      (void)tag;
      return next_++;
    }

    void EndEvent(uint32_t number) override {
      if (!interpreter_ || number >= count_ || number >= graph_->operators()->size() || !names_[number]) return;
      const int index = graph_->operators()->Get(number)->outputs()->Get(0);
      const TfLiteEvalTensor *tensor = interpreter_->GetTensor(index);
      const auto *shape = graph_->tensors()->Get(static_cast<uint32_t>(index))->shape();
      const uint32_t rank = shape ? shape->size() : 0, each = Bytes(tensor->type);
      uint32_t elements = 1;
      for (uint32_t i = 0; i < rank; i++) elements *= static_cast<uint32_t>(shape->Get(i));
      if (rank == 4 && channels_first_) {
        const uint32_t channels = static_cast<uint32_t>(shape->Get(3));
        qv_hook_channels_last(names_[number], tensor->data.data, elements / channels, channels, each);
      } else {
        qv_hook_tensor(names_[number], tensor->data.data, elements * each);
      }
    }

  private:
    static uint32_t Bytes(TfLiteType type) {
      return type == kTfLiteFloat32 || type == kTfLiteInt32 ? 4 : type == kTfLiteInt16 ? 2 : type == kTfLiteInt64 ? 8 : 1;
    }

    const char *const *names_;
    uint32_t count_, next_ = 0;
    bool channels_first_ = true;
    tflite::MicroInterpreter *interpreter_ = nullptr;
    const tflite::SubGraph *graph_ = nullptr;
  };

} // namespace qv
#endif
