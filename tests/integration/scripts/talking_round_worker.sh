#!/bin/sh
# A round worker that, once the file $TALK exists, also prints about 4 MB, more than its pipe holds, and then that
# it has printed all.
(
  while [ ! -e "$TALK" ] && [ ! -e "$2" ]; do sleep 0.05; done
  [ -e "$TALK" ] || exit 0
  yes "rank $RANK says something" | head -c 4000000
  printf '\nrank %s has said all\n' "$RANK"
) &
exec "$ROUND_WORKER" "$@"
