#compdef sepal
# Written by scripts/write-manuals.
local -a tools
tools=(
  'plan:Says what a filter takes in memory and what it promises'
  'build:Makes a filter file of lists of items'
  'merge:Makes one filter file of several of the same seed and shape'
  'convert:Makes a data directory or filter files of an RDB file of Redis\: filters and strings; exit status 3\: something was left out'
  'migrate:Copies the filters and strings of a running Redis, or of a sepald, to a sepald; exit status 3\: something was left out'
  'backup:Copies the data of a running or stopped sepald, and verifies the copy'
  'restore:Copies a backup into a data directory, and verifies it first'
  'verify:Checks a data directory or a filter file and writes nothing; exit status 1\: it is not whole, or cannot be read'
  'inspect:Prints what a filter file, or a file of a data directory, holds'
  'salvage:Saves what is whole of a damaged data directory into a new one; exit status 3\: something was lost'
  'help:Prints this help, or that of a command'
  'version:Prints the version'
)
if ((CURRENT == 2)); then
  _describe command tools
  _arguments \
    '(-h --help)-h[Print this help message and exit]' \
    '(-h --help)--help[Print this help message and exit]' \
    '--version[Display program version information and exit]'
  return
fi
local command=$words[2]
shift words
((CURRENT--))
case $command in
  plan)
    _arguments \
      '(-h --help)-h[Print this help message and exit]' \
      '(-h --help)--help[Print this help message and exit]' \
      '--error=[The error rate, above 0 and below 1 (default 0.01)]:rate:' \
      '--capacity=[The items of the first layer; with --window, of a window (default 100)]:count:' \
      '--expansion=[A new layer holds this many times the last (default 2)]:number:' \
      '--nonscaling[The filter refuses what is above its capacity]' \
      '--window=[The filter forgets items after this time, as in 90s, 15m, 1h or 7d]:time:' \
      '--rate=[With --window\: the different items that come in a time, as in 20000/s]:count/time:' \
      '--last=[The filter keeps this many items, and forgets older ones]:count:' \
      '--generations=[With --window or --last\: it forgets in so many steps (default 4)]:number:' \
      '--nodes[Divide it over the nodes of a cluster; say how much memory each machine needs]' ;;
  build)
    _arguments \
      '(-h --help)-h[Print this help message and exit]' \
      '(-h --help)--help[Print this help message and exit]' \
      '--format=[How items follow each other\: lines, crlf (lines, without a carriage return at their end), nul (each ends with a zero byte), or length (each begins with its length, 32 bits, little endian) (default lines)]:lines or crlf or nul or length:(lines crlf nul length)' \
      '--threads=[Threads to use; all processors if not given]:number:' \
      '(-o --output)-o[The filter file; replaced when it is done]:file:_files' \
      '(-o --output)--output=[The filter file; replaced when it is done]:file:_files' \
      '--error=[The error rate, above 0 and below 1 (default 0.01)]:rate:' \
      '--capacity=[The items of the first layer; as many as there are in the input if not given]:count:' \
      '--expansion=[A new layer holds this many times the last (default 2)]:number:' \
      '--nonscaling[The filter refuses what is above its capacity]' \
      '--seed=[The seed of the fingerprints, decimal or 0x...; drawn if not given]:number:' \
      '--seed-from=[Take the seed of this data directory of a server]:dir:_files -/' \
      '--key=[The key that the file names]:text:' \
      '(-q --quiet)-q[Print nothing but errors]' \
      '(-q --quiet)--quiet[Print nothing but errors]' \
      '*:file:_files' ;;
  merge)
    _arguments \
      '(-h --help)-h[Print this help message and exit]' \
      '(-h --help)--help[Print this help message and exit]' \
      '(-o --output)-o[The filter file; replaced when it is done]:file:_files' \
      '(-o --output)--output=[The filter file; replaced when it is done]:file:_files' \
      '--key=[The key that the file names; the first file'\''s if not given]:text:' \
      '(-q --quiet)-q[Print nothing but errors]' \
      '(-q --quiet)--quiet[Print nothing but errors]' \
      '*:file:_files' ;;
  convert)
    _arguments \
      '(-h --help)-h[Print this help message and exit]' \
      '(-h --help)--help[Print this help message and exit]' \
      '--data=[Make this data directory, which sepald then starts with]:dir:_files -/' \
      '--files=[Make a filter file for each Bloom filter in this folder, without databases, deadlines and strings]:dir:_files -/' \
      '--dry-run[Write nothing; print what there is]' \
      '(-q --quiet)-q[Print nothing but errors]' \
      '(-q --quiet)--quiet[Print nothing but errors]' \
      '*:input:_files' ;;
  migrate)
    _arguments \
      '(-h --help)-h[Print this help message and exit]' \
      '(-h --help)--help[Print this help message and exit]' \
      '--match=[Only keys of this pattern, as in SCAN]:text:' \
      '--db=[Only this database of the source; all if not given]:number:' \
      '--bitmap=[Strings of this pattern become filters\: '\''PATTERN'\'' '\''SCHEME BITS n CAPACITY n ...'\'', as in BF.IMPORTBITMAP; may be repeated]:pattern scheme:' \
      '--cacert=[With rediss\://, the CA certificates that have signed those of the servers; the system'\''s if not given]:file:_files' \
      '--cert=[With rediss\://, a certificate of one'\''s own]:file:_files' \
      '--key=[The key of that certificate]:file:_files' \
      '--insecure[With rediss\://, do not check the certificates of the servers]' \
      '--dry-run[Copy nothing; print what there is]' \
      '(-q --quiet)-q[Print nothing but errors]' \
      '(-q --quiet)--quiet[Print nothing but errors]' \
      '*:source:' ;;
  backup)
    _arguments \
      '(-h --help)-h[Print this help message and exit]' \
      '(-h --help)--help[Print this help message and exit]' \
      '--from=[The running server, redis\://\[USER@\]HOST\[\:PORT\], rediss\://... for TLS, or unix\://\[USER@\]/PATH; redis\://127.0.0.1\:6379 if neither this nor --dir is given]:server:' \
      '--dir=[The data directory\: of a stopped server; with --from, where that of the server is on this machine]:dir:_files -/' \
      '--keep=[Make the backup in the folder DEST, named after the time, and when it is whole remove all backups of this data directory there but the newest N]:n:' \
      '--cacert=[With rediss\://, the CA certificates that have signed those of the servers; the system'\''s if not given]:file:_files' \
      '--cert=[With rediss\://, a certificate of one'\''s own]:file:_files' \
      '--key=[The key of that certificate]:file:_files' \
      '--insecure[With rediss\://, do not check the certificates of the servers]' \
      '--copy[Copy all files, even where links would do, on the same file system]' \
      '(-q --quiet)-q[Print nothing but errors]' \
      '(-q --quiet)--quiet[Print nothing but errors]' \
      '*:dest:_files -/' ;;
  restore)
    _arguments \
      '(-h --help)-h[Print this help message and exit]' \
      '(-h --help)--help[Print this help message and exit]' \
      '--dir=[The data directory; no sepald may use it]:dir:_files -/' \
      '--force[Where the directory has data, put that aside, into a folder replaced-1, replaced-2, ... in it]' \
      '(-q --quiet)-q[Print nothing but errors]' \
      '(-q --quiet)--quiet[Print nothing but errors]' \
      '*:backup:_files -/' ;;
  verify)
    _arguments \
      '(-h --help)-h[Print this help message and exit]' \
      '(-h --help)--help[Print this help message and exit]' \
      '*:path:_files' ;;
  inspect)
    _arguments \
      '(-h --help)-h[Print this help message and exit]' \
      '(-h --help)--help[Print this help message and exit]' \
      '--json[A line of JSON for each thing]' \
      '*:file:_files' ;;
  salvage)
    _arguments \
      '(-h --help)-h[Print this help message and exit]' \
      '(-h --help)--help[Print this help message and exit]' \
      '--into=[The new one]:dir:_files -/' \
      '*:dir:_files -/' ;;
  help)
    _arguments \
      '(-h --help)-h[Print this help message and exit]' \
      '(-h --help)--help[Print this help message and exit]' \
      '*:command:(plan build merge convert migrate backup restore verify inspect salvage help version)' ;;
  version)
    _arguments \
      '(-h --help)-h[Print this help message and exit]' \
      '(-h --help)--help[Print this help message and exit]' ;;
esac
