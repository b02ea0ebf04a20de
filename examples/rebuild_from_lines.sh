#!/usr/bin/env bash
# Rebuilds a filter from lines on standard input, one item on each line, and replaces the old one when it is complete.
# Explained in docs/guides/rebuilding.md.
#
#   rebuild_from_lines.sh KEY ERROR_RATE CAPACITY < LINES
#   rebuild_from_lines.sh                                   shows it with a small list
#
# Needs redis-cli, and a sepald at SEPAL_HOST and SEPAL_PORT (127.0.0.1 and 6379 if not set). It takes a password
# from REDISCLI_AUTH.
set -euo pipefail

sepal() { redis-cli -e -h "${SEPAL_HOST:-127.0.0.1}" -p "${SEPAL_PORT:-6379}" "$@"; }

# add_requests KEY: makes requests in RESP. Their lengths are in bytes, so an item may hold quotes and blanks.
add_requests() {
  LC_ALL=C KEY=$1 awk '{ printf "*3\r\n$6\r\nBF.ADD\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n",
                         length(ENVIRON["KEY"]), ENVIRON["KEY"], length($0), $0 }'
}

rebuild() {
  local key=$1 next=$1:next end
  # Fails with "item exists" while another rebuild is running.
  sepal BF.RESERVE "$next" "$2" "$3" >/dev/null || return
  # There may be as many errors as lines. The last ones are enough.
  if end=$(add_requests "$next" | sepal --pipe 2>&1 | tail -n 3); then
    sepal RENAME "$next" "$key" >/dev/null
  else
    echo "$end" >&2
    sepal DEL "$next" >/dev/null
    return 1
  fi
}

expect() { # EXPECTED COMMAND...
  local expected=$1 found
  shift
  found=$(sepal "$@")
  [[ $found == "$expected" ]] || { echo "$*: $found instead of $expected" >&2; exit 1; }
}

show() {
  local key=blocked there
  there=$(sepal EXISTS "$key" "$key:next")
  [[ $there == 0 ]] || { echo "there are keys of an earlier run, or yours; delete them first: $key $key:next" >&2; exit 1; }
  printf '%s\n' "10.0.0.1" "a name with blanks" 'and "quotes"' "größe" | rebuild "$key" 0.000001 1000
  expect $'1\n1\n1\n1\n0' BF.MEXISTS "$key" "10.0.0.1" "a name with blanks" 'and "quotes"' "größe" "10.0.0.2"
  seq -f "10.0.0.%g" 2 250 | rebuild "$key" 0.000001 1000
  expect $'0\n1' BF.MEXISTS "$key" "10.0.0.1" "10.0.0.2"
  expect 249 BF.CARD "$key"

  sepal BF.RESERVE "$key:next" 0.01 10 >/dev/null
  if echo other | rebuild "$key" 0.000001 1000 2>/dev/null; then
    echo "a second rebuild went on beside the first" >&2
    exit 1
  fi
  expect 249 BF.CARD "$key"
  expect 2 DEL "$key" "$key:next"
  echo "built twice, replaced as a whole"
}

case $# in
  0) show ;;
  3) rebuild "$@" ;;
  *) echo "usage: $0 [KEY ERROR_RATE CAPACITY] < LINES" >&2; exit 2 ;;
esac
