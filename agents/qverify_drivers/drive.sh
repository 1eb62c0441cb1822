# Starts a driver in the engine's interpreter: sh RUN/in/drive.sh NETWORK INTERPRETER [WORD ...]
# Its processes get folders of the run as HOME and for temporary files, and no network (NETWORK 0) where an unprivileged
# namespace can be made. An interpreter that cannot be started is one line that names the option python=.
network=$1 interpreter=$2
shift
refuse() {
  echo "python=$interpreter: $1; give python=PYTHON, the interpreter that has the engine's packages" >&2
  exit 127
}
case $interpreter in
  /*)
    [ -e "$interpreter" ] || refuse "no such file on the engine's machine"
    [ ! -d "$interpreter" ] || refuse "a folder; wanted a program"
    [ -x "$interpreter" ] || refuse "not executable"
    ;;
  */*) refuse "a relative path, and the engine runs in a folder of its own; wanted an absolute path" ;;
  *) command -v "$interpreter" >/dev/null 2>&1 || refuse "no such program in the PATH of the engine's machine" ;;
esac
temporary=${0%/in/*}/tmp
mkdir -p "$temporary" || exit 1
export PYTHONUSERBASE="${PYTHONUSERBASE:-$HOME/.local}" HOME="$PWD" TMPDIR="$temporary" TMP="$temporary" TEMP="$temporary"
if [ "$network" = 0 ] && unshare -rn true 2>/dev/null; then exec unshare -rn "$@"; fi
exec "$@"
