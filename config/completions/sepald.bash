# Written by scripts/write-manuals.
_sepald() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
  # Of --journal=off, bash makes three words.
  if [[ $word == = ]]; then word=; elif [[ $before == = ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi
  case $before in
    --config) COMPREPLY=($(compgen -f -- "$word")); return ;;
    --unixsocket) COMPREPLY=($(compgen -f -- "$word")); return ;;
    --tls-cert-file) COMPREPLY=($(compgen -f -- "$word")); return ;;
    --tls-key-file) COMPREPLY=($(compgen -f -- "$word")); return ;;
    --tls-ca-cert-file) COMPREPLY=($(compgen -f -- "$word")); return ;;
    --tls-auth-clients) COMPREPLY=($(compgen -W "no optional yes" -- "$word")); return ;;
    --tls-auth-clients-user) COMPREPLY=($(compgen -W "off CN" -- "$word")); return ;;
    --tls-protocols) COMPREPLY=($(compgen -W "TLSv1.2 TLSv1.3" -- "$word")); return ;;
    --requirepass-file) COMPREPLY=($(compgen -f -- "$word")); return ;;
    --protected-mode) COMPREPLY=($(compgen -W "no yes" -- "$word")); return ;;
    --aclfile) COMPREPLY=($(compgen -f -- "$word")); return ;;
    --dir) COMPREPLY=($(compgen -d -- "$word")); return ;;
    --import-dir) COMPREPLY=($(compgen -d -- "$word")); return ;;
    --journal) COMPREPLY=($(compgen -W "off everysec always" -- "$word")); return ;;
    --missing-filter) COMPREPLY=($(compgen -W "absent error present" -- "$word")); return ;;
    --http-tls) COMPREPLY=($(compgen -W "no yes" -- "$word")); return ;;
    --log-level) COMPREPLY=($(compgen -W "trace debug info warning error" -- "$word")); return ;;
    --log-format) COMPREPLY=($(compgen -W "text json" -- "$word")); return ;;
    --log-file) COMPREPLY=($(compgen -f -- "$word")); return ;;
    --bind|--port|--backlog|--unixsocket-mode|--threads|--tls-port|--maxclients|--timeout|--login-timeout|--tcp-keepalive|--requirepass|--acllog-max-len|--uploads-max|--upload-timeout|--save-interval|--journal-segment|--journal-save-percent|--journal-save-min|--journal-size-max|--journal-size-max-percent|--disk-reserve|--save-bandwidth|--storage-threads|--stop-seconds-max|--maxmemory|--keys-max|--layers-max|--item-bytes-max|--request-bytes-max|--request-arguments-max|--line-bytes-max|--maxmemory-clients|--output-bytes-max|--busy-reply-threshold|--script-memory-max|--bf-error-rate|--bf-capacity|--bf-expansion|--cf-capacity|--cf-bucket-size|--cf-iterations|--cf-expansion|--cf-layers-max|--seed|--http-port|--http-bind|--http-hosts|--http-metrics-filters|--http-metrics-pattern|--user) return ;;
  esac
  COMPREPLY=($(compgen -W "-h --help -v --version --config --check-config --healthcheck --bind --port --backlog --unixsocket --unixsocket-mode --threads --tls-port --tls-cert-file --tls-key-file --tls-ca-cert-file --tls-auth-clients --tls-auth-clients-user --tls-protocols --maxclients --timeout --login-timeout --tcp-keepalive --requirepass --requirepass-file --protected-mode --aclfile --acllog-max-len --uploads-max --upload-timeout --dir --import-dir --save-interval --journal --journal-segment --journal-save-percent --journal-save-min --journal-size-max --journal-size-max-percent --disk-reserve --save-bandwidth --storage-threads --stop-seconds-max --maxmemory --keys-max --layers-max --item-bytes-max --request-bytes-max --request-arguments-max --line-bytes-max --maxmemory-clients --output-bytes-max --busy-reply-threshold --script-memory-max --missing-filter --bf-error-rate --bf-capacity --bf-expansion --cf-capacity --cf-bucket-size --cf-iterations --cf-expansion --cf-layers-max --seed --http-port --http-bind --http-tls --http-hosts --http-metrics-filters --http-metrics-pattern --user --log-level --log-format --log-file" -- "$word"))
}
complete -o filenames -F _sepald sepald
