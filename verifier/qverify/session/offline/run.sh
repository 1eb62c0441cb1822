#!/bin/sh
# Runs this bundle's model on this board and writes what every node computed to a folder, for qverify @VERSION@ on the host.
# sh run.sh [--digests-only] [FOLDER]      FOLDER: default `dump` beside this script. Exit status: 0 done, 2 usage, 3 failure.
set -u
unset CDPATH
LC_ALL=C
export LC_ALL
umask 077
fail() {
  echo "run.sh: $*" >&2
  exit 3
}
level=1
if [ "${1:-}" = --digests-only ]; then
  level=0
  shift
fi
case "${1:-}" in
  -*) usage=1 ;;
  *) usage= ;;
esac
if [ -n "$usage" ] || [ $# -gt 1 ]; then
  echo "usage: sh run.sh [--digests-only] [FOLDER]" >&2
  exit 2
fi
case "$0" in */*) here=${0%/*} ;; *) here=. ;; esac
out=${1:-dump}
case "$out" in /*) ;; *) [ $# -eq 0 ] || out=$PWD/$out ;; esac
cd -- "$here" || fail "cannot enter $here"
case "$out" in /*) ;; *) out=$PWD/$out ;; esac
machine=${QVERIFY_MACHINE:-$(uname -m 2>/dev/null)}
case "$machine" in
@CASES@
  *) fail "no runtime for machine '$machine' here; this bundle has: @HAS@. Next: QVERIFY_MACHINE=NAME sh run.sh" ;;
esac
mkdir -p "$out" || fail "cannot make the folder $out. Next: sh run.sh FOLDER with one that can be written"
rm -f "$out/about.txt" "$out/digests.txt"
(: >"$out/.probe") 2>/dev/null || fail "cannot write into $out. Next: sh run.sh FOLDER with another one"
rm -f "$out/.probe"
program=bin/qvrt-$arch
copy=
trap '[ -z "$copy" ] || rm -f "$copy"' EXIT
trap 'exit 3' HUP INT TERM
if ! "$program" --version >/dev/null 2>&1; then # not executable here: a noexec or FAT medium
  for dir in "$out" /tmp /dev/shm /var/tmp "${HOME:-/}"; do
    copy=$dir/.qvrt-$$
    (set -C && cat "$program" >"$copy") 2>/dev/null && chmod 700 "$copy" 2>/dev/null && "$copy" --version >/dev/null 2>&1 && break
    rm -f "$copy" 2>/dev/null
    copy=
  done
  [ -n "$copy" ] || fail "the runtime does not run from here, nor from $out, /tmp, /dev/shm, /var/tmp (mounted noexec?) nor on this machine ($machine)"
  program=$copy
fi
check() {
  [ "$("$program" sha256 "$1" 2>/dev/null)" = "$2" ] || fail "$1 is not what was packed; copy the bundle to the board again"
}
check "bin/qvrt-$arch" "$hash"
check "$program" "$hash"
@CHECKS@
"$program" infer --model_file=model.bin --input_file=@INPUTS@ --enable_dump --dump_intermediate=$level \
  --dump_path="$out" --digests >"$out/digests.part" || fail "the run failed; what it wrote so far is in $out"
mv "$out/digests.part" "$out/digests.txt" || fail "cannot finish $out/digests.txt"
{
  echo "qverify.dump/1"
  echo "machine=$machine"
  echo "kernel=$(uname -sr 2>/dev/null)"
  echo "runtime=$("$program" --version)"
  echo "digests_only=$((1 - level))"
  echo "model=$("$program" sha256 model.bin)"
  list=@INPUTS@
  IFS=,
  for input in $list; do echo "input=$("$program" sha256 "$input")"; done
} >"$out/about.part" && mv "$out/about.part" "$out/about.txt" || fail "cannot finish $out/about.txt"
echo "run.sh: done. Copy $out back; on the host: qverify replay BUNDLE --dump DUMP"
