# Written by scripts/write-manuals.
_sepal() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
  # Of --journal=off, bash makes three words.
  if [[ $word == = ]]; then word=; elif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi
  if ((COMP_CWORD == 1)); then
    COMPREPLY=($(compgen -W "plan build merge convert migrate backup restore verify inspect salvage help version -h --help --version" -- "$word"))
    return
  fi
  case ${COMP_WORDS[1]} in
    plan)
      case $before in
        --error|--capacity|--expansion|--window|--rate|--last|--generations) return ;;
      esac
      if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "-h --help --error --capacity --expansion --nonscaling --window --rate --last --generations --nodes" -- "$word")); fi ;;
    build)
      case $before in
        --format) COMPREPLY=($(compgen -W "lines crlf nul length" -- "$word")); return ;;
        -o|--output) COMPREPLY=($(compgen -f -- "$word")); return ;;
        --seed-from) COMPREPLY=($(compgen -d -- "$word")); return ;;
        --threads|--error|--capacity|--expansion|--seed|--key) return ;;
      esac
      if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "-h --help --format --threads -o --output --error --capacity --expansion --nonscaling --seed --seed-from --key -q --quiet" -- "$word")); else COMPREPLY=($(compgen -f -- "$word")); fi ;;
    merge)
      case $before in
        -o|--output) COMPREPLY=($(compgen -f -- "$word")); return ;;
        --key) return ;;
      esac
      if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "-h --help -o --output --key -q --quiet" -- "$word")); else COMPREPLY=($(compgen -f -- "$word")); fi ;;
    convert)
      case $before in
        --data) COMPREPLY=($(compgen -d -- "$word")); return ;;
        --files) COMPREPLY=($(compgen -d -- "$word")); return ;;
      esac
      if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "-h --help --data --files --dry-run -q --quiet" -- "$word")); else COMPREPLY=($(compgen -f -- "$word")); fi ;;
    migrate)
      case $before in
        --cacert) COMPREPLY=($(compgen -f -- "$word")); return ;;
        --cert) COMPREPLY=($(compgen -f -- "$word")); return ;;
        --key) COMPREPLY=($(compgen -f -- "$word")); return ;;
        --match|--db|--bitmap) return ;;
      esac
      if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "-h --help --match --db --bitmap --cacert --cert --key --insecure --dry-run -q --quiet" -- "$word")); fi ;;
    backup)
      case $before in
        --dir) COMPREPLY=($(compgen -d -- "$word")); return ;;
        --cacert) COMPREPLY=($(compgen -f -- "$word")); return ;;
        --cert) COMPREPLY=($(compgen -f -- "$word")); return ;;
        --key) COMPREPLY=($(compgen -f -- "$word")); return ;;
        --from|--keep) return ;;
      esac
      if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "-h --help --from --dir --keep --cacert --cert --key --insecure --copy -q --quiet" -- "$word")); else COMPREPLY=($(compgen -d -- "$word")); fi ;;
    restore)
      case $before in
        --dir) COMPREPLY=($(compgen -d -- "$word")); return ;;
      esac
      if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "-h --help --dir --force -q --quiet" -- "$word")); else COMPREPLY=($(compgen -d -- "$word")); fi ;;
    verify)
      if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "-h --help" -- "$word")); else COMPREPLY=($(compgen -f -- "$word")); fi ;;
    inspect)
      if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "-h --help --json" -- "$word")); else COMPREPLY=($(compgen -f -- "$word")); fi ;;
    salvage)
      case $before in
        --into) COMPREPLY=($(compgen -d -- "$word")); return ;;
      esac
      if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "-h --help --into" -- "$word")); else COMPREPLY=($(compgen -d -- "$word")); fi ;;
    help)
      if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "-h --help" -- "$word")); else COMPREPLY=($(compgen -W "plan build merge convert migrate backup restore verify inspect salvage help version" -- "$word")); fi ;;
    version)
      if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "-h --help" -- "$word")); fi ;;
  esac
}
complete -o filenames -F _sepal sepal
