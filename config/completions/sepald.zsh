#compdef sepald
# Written by scripts/write-manuals.
_arguments \
  '(-h --help)-h[print this help and exit]' \
  '(-h --help)--help[print this help and exit]' \
  '(-v --version)-v[print the version and exit]' \
  '(-v --version)--version[print the version and exit]' \
  '--config=[configuration file; a flag overrides what it says]:file:_files' \
  '--check-config[check the settings and the files that they name, print what differs from the defaults, and exit]' \
  '--healthcheck[ask the sepald that runs with these settings whether it is alive and loaded, and exit with 0 (yes), 1 (no) or 2 (the settings are wrong)]' \
  '--bind=[addresses to listen on, as one value ("ADDRESS ADDRESS"); a leading '\''-'\'' forgives one that the machine does not have (default \["127.0.0.1"\])]:address:' \
  '--port=[TCP port; 0 lets the system pick one, or with a UNIX socket or a TLS port means none (default 6379)]:number:' \
  '--backlog=[connections that may wait to be accepted (default 511)]:number:' \
  '--unixsocket=[path of a Unix socket to listen on as well; empty\: none (default "")]:path:_files' \
  '--unixsocket-mode=[permissions of that path, octal (default "700")]:octal:' \
  '--threads=[threads that serve requests; 0\: one for each core, or fewer if the container has less CPU time (default 0)]:number:' \
  '--tls-port=[TCP port at the same addresses where clients speak TLS; 0\: none; with port = 0, the only one (default 0)]:number:' \
  '--tls-cert-file=[PEM file of the server'\''s certificate, and behind it those between it and the root; this and the files below are read anew at SIGHUP and by CONFIG SET of one of them (default "")]:path:_files' \
  '--tls-key-file=[PEM file of the certificate'\''s key, which has no passphrase (default "")]:path:_files' \
  '--tls-ca-cert-file=[PEM file of the CA certificates that certificates of clients are signed with; empty\: none (default "")]:path:_files' \
  '--tls-auth-clients=[whether clients show a certificate; one that is shown must be valid in any case but '\''no'\'' (default "no")]:no or optional or yes:(no optional yes)' \
  '--tls-auth-clients-user=[CN\: a client is logged in as the user that the common name of its certificate names (default "off")]:off or cn:(off CN)' \
  '--tls-protocols=[versions of TLS that clients may speak (default "TLSv1.2 TLSv1.3")]:tlsv1.2 tlsv1.3 or tlsv1.2 or tlsv1.3:(TLSv1.2 TLSv1.3)' \
  '--maxclients=[connections at a time (default 10000)]:number:' \
  '--timeout=[idle time after which a connection is closed; 0\: never (default 0)]:time:' \
  '--login-timeout=[time after which a client is closed that must log in and has not; 0\: never (default "1m")]:time:' \
  '--tcp-keepalive=[idle time after which a new connection is probed; 0\: never (default "5m")]:time:' \
  '--requirepass=[password that clients must give by AUTH; empty\: none (better in the file than as a flag, which every user of the machine can see) (default "")]:text:' \
  '--requirepass-file=[file whose first line is that password, read at the start and at SIGHUP; empty\: none (default "")]:path:_files' \
  '--protected-mode=[while the user '\''default'\'' needs no password, only clients on this machine may connect (default "yes")]:no or yes:(no yes)' \
  '--aclfile=[file of the users and what they may do, which ACL LOAD reads and ACL SAVE writes; empty\: none (default "")]:path:_files' \
  '--acllog-max-len=[entries that ACL LOG keeps\: requests that were not allowed, and failed logins (default 128)]:number:' \
  '--uploads-max=[filters that clients upload (BF.LOADCHUNK) at a time; 0\: none may (default 64)]:number:' \
  '--upload-timeout=[time without a piece after which an upload is dropped (default "5m")]:time:' \
  '--dir=[directory for the data; made when missing (default "data")]:dir:_files -/' \
  '--import-dir=[directory of the files that BF.IMPORT reads and BF.EXPORT writes; empty\: neither is taken (default "")]:dir:_files -/' \
  '--save-interval=[time between saves; 0\: only on command and at stop (default "1h")]:time:' \
  '--journal=[what the journal promises of an answered change\: always (it survives a power cut), everysec (that, after a second; the end of the process at once) or off (default "everysec")]:off or everysec or always:(off everysec always)' \
  '--journal-segment=[the most that a file of the journal has; some are made ahead (default "64mb")]:size:' \
  '--journal-save-percent=[a save begins when the journal is longer than this percentage of the memory in use; 0\: never (default 100)]:number:' \
  '--journal-save-min=[a shorter journal leads to no save (default "64mb")]:size:' \
  '--journal-size-max=[room on the disk for the journal and the files it names, before a save has to end; 0\: no bound (default "512mb")]:size:' \
  '--journal-size-max-percent=[the same as a share of the data; the larger of the two counts (default 300)]:number:' \
  '--disk-reserve=[room that is kept on the disk for deletions, a save and a start when it is full; 0\: none (default "32mb")]:size:' \
  '--save-bandwidth=[bytes that a save writes in a second, but for the one at stop; 0\: as many as the disk takes (default 0)]:size:' \
  '--storage-threads=[threads that pack small filters for a save, or read and check filters at a start; 0\: one for each core, or fewer if the container has less CPU time, and 16 at most (default 0)]:number:' \
  '--stop-seconds-max=[time an orderly stop may take, its save included (default "1m")]:time:' \
  '--maxmemory=[memory of all filters and keys; 0\: a share of what the machine or container has (default 0)]:size:' \
  '--keys-max=[keys in all databases together (default 1000000000)]:number:' \
  '--layers-max=[layers that one filter may grow to (default 64)]:number:' \
  '--item-bytes-max=[length of an item, a key or any other argument (default "512mb")]:size:' \
  '--request-bytes-max=[length of a request (default "1gb")]:size:' \
  '--request-arguments-max=[arguments of a request, its name included (default 1048576)]:number:' \
  '--line-bytes-max=[length of a request written as a plain line (default "64kb")]:size:' \
  '--maxmemory-clients=[memory of all clients\: unread replies, and requests that are unfinished or wait for EXEC; above it, the client with most of them is closed; 0\: no bound (default "1280mb")]:size:' \
  '--output-bytes-max=[replies of a connection after which the others get their turn (default "1mb")]:size:' \
  '--busy-reply-threshold=[milliseconds, as in redis.conf, that a script may run before other clients are told that it runs (default 5000)]:number:' \
  '--script-memory-max=[memory of the scripts of one worker thread (default "256mb")]:size:' \
  '--missing-filter=[what look-ups answer for a key without a filter\: absent (0, as RedisBloom), error (ERR not found) or present (1) (default "absent")]:absent or error or present:(absent error present)' \
  '--bf-error-rate=[share of absent items that may be answered with yes (default 0.01)]:number:' \
  '--bf-capacity=[items of the first layer (default 100)]:number:' \
  '--bf-expansion=[a new layer holds this many times the last; 0\: filters do not grow (default 2)]:number:' \
  '--cf-capacity=[items that a cuckoo filter is made for; at least twice cf_bucket_size (default 1024)]:number:' \
  '--cf-bucket-size=[the bucket size that CF.INFO tells (default 2)]:number:' \
  '--cf-iterations=[the iterations that CF.INFO tells (default 20)]:number:' \
  '--cf-expansion=[0\: cuckoo filters do not grow; else the expansion that CF.INFO tells (default 1)]:number:' \
  '--cf-layers-max=[layers that a cuckoo filter of RedisBloom may grow to, if layers_max allows them (default 32)]:number:' \
  '--seed=[seed of the hash of new filters; auto\: drawn once, kept with the data (default "auto")]:number:' \
  '--http-port=[TCP port of the pages for operators\: /, /metrics, /healthz, /readyz; 0\: none (default 0)]:number:' \
  '--http-bind=[address of these pages; they ask for no password (default "127.0.0.1")]:text:' \
  '--http-tls=[serves these pages over TLS, with the certificate and the rules of tls_cert_file and so on (default "no")]:no or yes:(no yes)' \
  '--http-hosts=[names of this server that a Host header may have, besides localhost and its addresses (default \[\])]:address:' \
  '--http-metrics-filters=[how many filters / and /metrics list\: so many of those in trouble, and so many of the largest (default 100)]:number:' \
  '--http-metrics-pattern=[only filters whose keys match it, as in KEYS (default "*")]:text:' \
  '--user=[user that sepald becomes when root starts it; empty\: none (default "")]:text:' \
  '--log-level=[the least that is logged (default "info")]:trace or debug or info or warning or error:(trace debug info warning error)' \
  '--log-format=[how a line of the log looks (default "text")]:text or json:(text json)' \
  '--log-file=[file to log to; empty\: standard error (default "")]:path:_files'
