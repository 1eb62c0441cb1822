# Runs one command line in a session and a new folder of its own, and leaves nothing of it behind. The host keeps the standard
# input of this script open; when it ends, everything that the command started is killed and the folder is removed.
#   run RUN TOKEN SECONDS FOLDER COLLECT SETUP LINE TEARDOWN ALONE STORE RUNTIME COUNT [FILE=HASH ...] [NAME=VALUE ...]
#   clean RUN TOKEN
# ALONE: 1 if the board's lock guarantees that no other host has runs here; folders of earlier runs are then removed.
# FILE=HASH: COUNT contents of STORE, each linked to as RUN/in/FILE. For ?FILE=HASH, RUNTIME first checks the content's hash.
umask 077
mark() { printf '\nqverify:%s:%s\n' "$token" "$*"; }

alive() { # prints those of the given process ids that are running and no zombies
  for pid in "$@"; do
    stat=
    { read -r stat <"/proc/$pid/stat"; } 2>/dev/null || continue
    case ${stat##*") "} in [ZX]*) ;; *) echo "$pid" ;; esac
  done
}

started() { # prints every process of the command that can be found: by its cgroup, its environment or its session
  [ -z "$group" ] || alive $(cat "$group/cgroup.procs" 2>/dev/null)
  alive $(grep -l "QVERIFY_RUN=$token" /proc/[0-9]*/environ 2>/dev/null | sed 's|[^0-9]||g')
  [ -z "$child" ] || cat /proc/[0-9]*/stat 2>/dev/null | while read -r stat; do
    set -- ${stat##*") "}
    [ "$4" != "$child" ] || [ "$1" = Z ] || echo "${stat%% *}"
  done
}

sweep() {
  tries=0
  while left=$(started) && [ -n "$left" ] && [ "$tries" -lt 50 ]; do
    kill -9 $left 2>/dev/null
    tries=$((tries + 1))
    [ "$tries" -lt 5 ] || sleep 0.1 2>/dev/null || sleep 1
  done
}

end_watchers() { # dash loses a signal that reaches a subshell while it is being forked: sent until both have ended
  kill $late $gone 2>/dev/null
  tries=0
  while left=$(alive $late $gone) && [ -n "$left" ] && [ "$tries" -lt 30 ]; do
    kill $left 2>/dev/null
    tries=$((tries + 1))
    [ "$tries" -lt 20 ] || sleep 0.1 2>/dev/null || sleep 1
  done
  kill -9 $left 2>/dev/null
}

leave() {
  trap '' HUP INT TERM PIPE
  end_watchers
  [ -n "$swept" ] || sweep
  [ -z "$group" ] || rmdir "$group" 2>/dev/null
  cd /
  rm -rf "$run" 2>/dev/null || { chmod -R u+rwx "$run" && rm -rf "$run"; } 2>/dev/null
  exit "${1:-1}"
}

launch() { # runs a command line in a session of its own and sets status
  cd "$folder" || { status=126; return; }
  swept=
  env "QVERIFY_RUN=$token" "$@" $session sh -c 'if [ -n "$1" ]; then echo $$ >"$1/cgroup.procs"; fi 2>/dev/null
eval "$2"' sh "$group" "$line" 3<&- 2>&1 &
  child=$!
  wait "$child"
  status=$?
  while kill -0 "$child" 2>/dev/null; do # a signal to this shell ended the wait
    wait "$child"
    status=$?
  done
  sweep
  swept=1
}

what=$1 run=$2 token=$3 child= group= late= gone= status=0 swept=
for base in /sys/fs/cgroup/pids /sys/fs/cgroup/systemd /sys/fs/cgroup; do
  [ "$what" = run ] || { [ ! -d "$base/qverify-$token" ] || group=$base/qverify-$token; continue; }
  [ -f "$base/cgroup.procs" ] && mkdir "$base/qverify-$token" 2>/dev/null && group=$base/qverify-$token && break
done
[ "$what" = run ] || leave 0
limit=$4 folder=$5 collect=$6 setup=$7 command=$8 teardown=$9 alone=${10} store=${11} runtime=${12} links=${13}
shift 13
for old in "${run%/*}"/*/; do # left by hosts that lost the connection when the board's power or network failed
  [ "$alone" = 1 ] && [ -d "$old" ] || continue
  old=${old%/}
  (what=clean run=$old token=${old##*/} group= swept=; leave 0)
done
mkdir -p "${run%/*}" && mkdir "$run" "$run/in" "$run/out" || { mark "nofolder"; exit 1; }
while [ "$links" -gt 0 ]; do
  hash=${1##*=} name=${1%=*}
  case $name in
    \?*)
      name=${name#\?}
      got=$($runtime sha256 "$store/$hash" 2>/dev/null) || got=
      case $got in "$hash"*) ;; *) rm -f "$store/$hash"; mark "changed=$hash"; leave 1 ;; esac ;;
  esac
  ln -s "$store/$hash" "$run/in/$name" || leave 1
  links=$((links - 1))
  shift
done
session=
command -v setsid >/dev/null 2>&1 && session=setsid
exec 3<&0 </dev/null
trap leave HUP INT TERM PIPE
give_up() { # if the command has killed this shell, which is then a zombie, cleans up in its place
  if [ -n "$(alive $$)" ]; then kill -TERM $$; else leave; fi
}
(
  trap 'kill -9 $!; exit' TERM
  sleep "$limit" >/dev/null 2>&1 &
  wait $!
  give_up
) 2>/dev/null 3<&- &
late=$!
(
  while read -r word <&3; do :; done
  give_up
) 2>/dev/null & # these two keep the output open until everything is removed
gone=$!
by_link=
[ ! -L "$collect" ] || by_link=1
mark "began=$(date +%s)"
line=$setup
[ -z "$line" ] || launch "$@"
if [ "$status" != 0 ]; then
  mark "setup=$status"
elif [ "$collect" != "$run/out" ] && [ -n "$(ls -A "$collect" 2>/dev/null)" ]; then
  mark "notempty=$(ls -A "$collect" | head -n 1)"
else
  mark start
  line=$command
  launch "$@"
  mark "status=$status"
  line=$teardown
  [ -z "$line" ] || { launch "$@"; mark "teardown=$status"; }
fi
end_watchers
wait $late $gone 2>/dev/null # from here on, no other process reads the host's input
late= gone=
[ -n "$by_link" ] || [ ! -L "$collect" ] || mark replaced
linked=$(find "$collect" -type f -links +1 2>/dev/null | head -n 1)
[ -z "$linked" ] || mark "linked=${linked#"$collect"/}"
mark "bytes=$(cd "$collect" && find . -type f -exec stat -c %s {} + 2>/dev/null | { # sizes of contents, because tar reads a sparse file in full
  sum=0
  while read -r size; do
    case $size in '' | *[!0-9]*) ;; *) sum=$((sum + size)) ;; esac
  done
  echo "$sum"
})"
mark end
read -r word <&3 || leave
[ "$word" = pull ] || leave
cd "$collect" && tar -cf - .
leave $?
