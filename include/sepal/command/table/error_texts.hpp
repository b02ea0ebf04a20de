// Every text that a client sees when a request is refused. Clients match on these: tests compare them byte
// for byte with the reference. No text has the leading '-'.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/bloom/commands/texts.hpp>
#include <sepal/keyspace/mirrors.hpp>

#include <string>
#include <string_view>

namespace sepal::command {

// The text for a code that reaches a handler.
[[nodiscard]] std::string_view text_of(Errc code);

using bloom::wrong_arity;

// "EXECABORT Transaction discarded because of: ...", with the text of why EXEC was refused.
[[nodiscard]] std::string transaction_discarded(std::string_view reason);

// "NOPERM ...": the client's user may not do this.
[[nodiscard]] std::string no_permission(std::string_view reason);

// "ERR invalid expire time in 'expire' command"
[[nodiscard]] std::string bad_expire_time(std::string_view command_name);

// "ERR Unsupported option ..."
[[nodiscard]] std::string unsupported_option(std::string_view word);

// "ERR too many command names: the limit is ..."
[[nodiscard]] std::string too_many_names();

// "ERR too many parameter names: the limit is ..."
[[nodiscard]] std::string too_many_parameters();

// "MISCONF Errors writing to the journal: ..."
[[nodiscard]] std::string journal_refuses(std::string_view reason);

// "ERR unknown scheme: known are ..."
[[nodiscard]] std::string unknown_scheme();

// For a job outside the workers: adds the sentence where the environment failed.
[[nodiscard]] std::string reason_text(const Error& error);

// Why a mirror is broken; empty if it is not.
[[nodiscard]] std::string_view reason_of(keyspace::MirrorState state);
// "ERR the mirror is broken: ...": for a state that is not whole.
[[nodiscard]] std::string broken_mirror(keyspace::MirrorState state);

namespace text {

// Those of the BF commands that every host has; `wrong_type`, `syntax` and `not_an_integer` among them, which
// any command may answer.
using namespace bloom::text;

// Any command.
inline constexpr std::string_view no_authentication = "NOAUTH Authentication required.";
inline constexpr std::string_view over_memory = "OOM command not allowed when used memory > 'maxmemory'.";
inline constexpr std::string_view no_memory = "OOM the system gives the server no more memory";
inline constexpr std::string_view no_memory_for_reply =
    "OOM the system has no memory for the reply; the command has run, perhaps in part";
inline constexpr std::string_view loading = "LOADING Redis is loading the dataset in memory";
inline constexpr std::string_view no_cluster = "ERR This instance has cluster support disabled";

// Scripts.
inline constexpr std::string_view unknown_in_script = "ERR Unknown Redis command called from script";
inline constexpr std::string_view wrong_arity_in_script =
    "ERR Wrong number of args calling Redis command from script";
inline constexpr std::string_view not_in_script = "ERR This Redis command is not allowed from script";
inline constexpr std::string_view write_in_read_only_script =
    "ERR Write commands are not allowed from read-only scripts.";
inline constexpr std::string_view script_over_memory =
    "OOM allow-oom flag is not set on the script, can not run it when used memory > 'maxmemory'";
inline constexpr std::string_view script_too_long =
    "ERR the script is longer than a quarter of script-memory-max";
inline constexpr std::string_view scripts_full =
    "ERR the texts of loaded scripts take a quarter of script-memory-max, which is their limit; SCRIPT FLUSH "
    "forgets them";
inline constexpr std::string_view script_reply_too_long =
    "ERR the reply of the command is longer than the memory that the script has left";
inline constexpr std::string_view no_memory_for_scripts = "ERR the system has no memory for scripts";
inline constexpr std::string_view script_without_room =
    "ERR the journal has no room for further changes of this script: make it shorter";
inline constexpr std::string_view busy_script =
    "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
inline constexpr std::string_view no_busy_script = "NOTBUSY No scripts in execution right now.";
inline constexpr std::string_view unkillable_script =
    "UNKILLABLE Sorry the script already executed write commands against the dataset. You can either wait "
    "the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE command.";
inline constexpr std::string_view script_words_too_long =
    "ERR the words of a request that runs or loads a script have at most 16777216 bytes";
inline constexpr std::string_view unknown_script = "NOSCRIPT No matching script. Please use EVAL.";
inline constexpr std::string_view negative_key_count = "ERR Number of keys can't be negative";
inline constexpr std::string_view many_keys = "ERR Number of keys can't be greater than number of args";
inline constexpr std::string_view function_flush_option =
    "ERR FUNCTION FLUSH only supports SYNC|ASYNC option";
inline constexpr std::string_view no_library_name = "ERR library name argument was not given";
inline constexpr std::string_view script_flush_option = "ERR SCRIPT FLUSH only support SYNC|ASYNC option";
inline constexpr std::string_view script_debug_mode = "ERR Use SCRIPT DEBUG YES/SYNC/NO";
inline constexpr std::string_view no_script_debugger =
    "ERR Sepal has no debugger for scripts: see docs/protocol.md";
inline constexpr std::string_view function_not_found = "ERR Function not found";
inline constexpr std::string_view no_functions =
    "ERR Sepal has no libraries of functions: use EVAL and EVALSHA (docs/protocol.md)";

inline constexpr std::string_view record_too_large =
    "ERR the request may record more than the journal can hold; send it in parts, or raise journal-size-max";

// Transactions.
inline constexpr std::string_view exec_without_multi = "ERR EXEC without MULTI";
inline constexpr std::string_view discard_without_multi = "ERR DISCARD without MULTI";
inline constexpr std::string_view nested_multi = "ERR MULTI calls can not be nested";
inline constexpr std::string_view too_many_words_alone =
    "ERR all other clients wait for this command, so it takes at most 65536 words";
inline constexpr std::string_view description_too_long =
    "ERR the descriptions of these commands are longer than 4194304 bytes; ask for fewer of them at once";
inline constexpr std::string_view watch_inside_multi = "ERR WATCH inside MULTI is not allowed";
inline constexpr std::string_view not_in_transaction = "ERR Command not allowed inside a transaction";
inline constexpr std::string_view transaction_failed =
    "EXECABORT Transaction discarded because of previous errors.";
inline constexpr std::string_view transaction_too_long =
    "ERR the transaction is longer than its limit allows: 1048576 commands, 268435456 bytes of memory";
inline constexpr std::string_view transaction_too_large =
    "ERR the transaction may record more than half of journal-size-max; send it in parts";
inline constexpr std::string_view rename_beside_mirror =
    "ERR a transaction cannot rename a key while a filter has a mirror; send the command outside of it";
inline constexpr std::string_view exec_reply_too_long =
    "ERR the command was run, but its reply has no room: those of a transaction have 67108864 bytes, and no "
    "more than maxmemory-clients";
inline constexpr std::string_view transaction_bounds_reached =
    "ERR the transaction has run for 1000 milliseconds, or its replies have no room: a command that only "
    "reads "
    "is not run any more";
inline constexpr std::string_view too_many_watched =
    "ERR too many watched keys: the limit of a connection is 4096";
inline constexpr std::string_view watched_names_too_long =
    "ERR the names of the watched keys are too long: the limit of a connection is 1048576 bytes in all";
inline constexpr std::string_view database_changed =
    "ERR the database was flushed or swapped while the command ran; the command has changed nothing";
inline constexpr std::string_view whole_in_transaction =
    "ERR a filter or string as large as this one is copied by a job of its own; send the command outside of "
    "a "
    "transaction or script";

// Strings.
inline constexpr std::string_view bit_position = "ERR bit offset is not an integer or out of range";
inline constexpr std::string_view bit_value = "ERR bit is not an integer or out of range";
inline constexpr std::string_view bit_sought = "ERR The bit argument must be 1 or 0.";
inline constexpr std::string_view bitop_not = "ERR BITOP NOT must be called with a single source key.";
inline constexpr std::string_view too_many_sources = "ERR BITOP takes at most 1024 source keys";
inline constexpr std::string_view bitfield_type =
    "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.";
inline constexpr std::string_view bitfield_overflow = "ERR Invalid OVERFLOW type specified";
inline constexpr std::string_view bitfield_read_only = "ERR BITFIELD_RO only supports the GET subcommand";
inline constexpr std::string_view offset_range = "ERR offset is out of range";
inline constexpr std::string_view increment_overflow = "ERR increment or decrement would overflow";
inline constexpr std::string_view decrement_overflow = "ERR decrement would overflow";
inline constexpr std::string_view string_too_long =
    "ERR string exceeds maximum allowed size (proto-max-bulk-len)";
inline constexpr std::string_view too_many_sparse_strings =
    "ERR the server holds as many strings of 256 KiB or more as vm.max_map_count of the system allows, and "
    "at most 131072";
inline constexpr std::string_view long_string_in_transaction =
    "ERR a string as long as this one is put by a job of its own; send the command outside of a transaction "
    "or script";
inline constexpr std::string_view long_string_among_others =
    "ERR MSET takes strings of at most 1048576 bytes; put a longer one with SET";
inline constexpr std::string_view too_many_pairs = "ERR MSET takes at most 65536 keys; send several of them";
inline constexpr std::string_view too_many_fields =
    "ERR BITFIELD takes at most 65536 operations; send several of them";
inline constexpr std::string_view strings_too_long_in_transaction =
    "ERR the strings have no room: the replies of a transaction, and one in a script, have 67108864 bytes, "
    "and "
    "no more than maxmemory-clients";
inline constexpr std::string_view many_sources_in_transaction =
    "ERR the sources have more than 1048576 bytes together; send the command outside of a transaction or "
    "script";
inline constexpr std::string_view strings_reply_too_long =
    "ERR the strings together are longer than maxmemory-clients; ask for fewer of them at once";
inline constexpr std::string_view keys_reply_too_long =
    "ERR the names of these keys are longer than maxmemory-clients; ask for fewer of them at once";
inline constexpr std::string_view users_reply_too_long =
    "ERR the rules of all users are longer than maxmemory-clients; ask for one user at a time";

// BF commands, those of this host alone.
inline constexpr std::string_view too_many_keys = "ERR the server holds as many keys as its limit allows";
inline constexpr std::string_view load_not_adopted =
    "ERR the upload has not got under its key: wait for it, or begin again with the header";
inline constexpr std::string_view too_many_uploads = "ERR as many filters are uploaded as uploads-max allows";
inline constexpr std::string_view too_many_layers = "ERR the filter has more layers than layers_max allows";
// Behind the reason why a source has not taken an item.
inline constexpr std::string_view but_in_target = ", but the target of its mirror has the item";
inline constexpr std::string_view no_mirror = "ERR the filter has no mirror";
inline constexpr std::string_view mirror_target_not_found = "ERR the target of the mirror is not there";
inline constexpr std::string_view mirror_taken = "ERR a filter can be an end of one mirror only";
inline constexpr std::string_view mirror_of_itself = "ERR a filter cannot be its own mirror";
inline constexpr std::string_view target_of_mirror =
    "ERR the key is the target of a mirror: say BF.MIRROR source OFF first";
inline constexpr std::string_view too_many_mirrors = "ERR there are as many mirrors as there may be: 256";
inline constexpr std::string_view part_changed = "ERR a filter was removed or replaced meanwhile: try again";
inline constexpr std::string_view filled_meanwhile = "ERR clients added too many items meanwhile: try again";
inline constexpr std::string_view names_too_long = "ERR the names of the filters are too long together";
inline constexpr std::string_view union_of_mirrored =
    "ERR the destination is the source of a mirror, whose target would lack the items: say BF.MIRROR "
    "destination OFF first";
inline constexpr std::string_view union_of_kinds =
    "ERR a filter with a window cannot be united with one without";
inline constexpr std::string_view window_not_shrunk =
    "ERR a filter with a window cannot be shrunk: reserve another one, and add to both for one window";
inline constexpr std::string_view not_shrunk =
    "ERR the filter cannot be smaller: its items need their room, or its size has no such part";
inline constexpr std::string_view bitmap_incomplete = "ERR SCHEME and CAPACITY must be given";
inline constexpr std::string_view bitmap_bits_range = "ERR BITS must be in the range [1, 4294967296]";
inline constexpr std::string_view bitmap_hashes_range = "ERR HASHES must be in the range [1, 255]";
inline constexpr std::string_view bitmap_seed_range = "ERR SEED must be in the range [0, 4294967295]";
inline constexpr std::string_view bitmap_expansion_range =
    "ERR expansion must be in the range [1, 32768]: nothing is added to the bitmap";
inline constexpr std::string_view bitmap_needs_bits =
    "ERR BITS must be given: the number of bits by which the program divides";
inline constexpr std::string_view bitmap_needs_hashes =
    "ERR HASHES must be given: the number of bits that the program sets for an item";
inline constexpr std::string_view bitmap_bits_known =
    "ERR BITS must not be given: the string says how many bits there are";
inline constexpr std::string_view bitmap_hashes_known =
    "ERR HASHES must not be given: the scheme or the string says how many there are";
inline constexpr std::string_view bitmap_without_seed = "ERR this scheme has no SEED";
inline constexpr std::string_view bitmap_not_of_guava =
    "ERR the string is not what BloomFilter.writeTo() of Guava writes";
inline constexpr std::string_view bitmap_beyond_bits =
    "ERR a bit behind BITS is set: the program divides by a larger number";
inline constexpr std::string_view bitmap_ends_early =
    "ERR no bit near BITS is set, though many bits are: the program divides by a smaller number";

// Keys.
inline constexpr std::string_view key_too_long = "ERR the key is longer than 65536 bytes";
inline constexpr std::string_view no_such_key = "ERR no such key";
inline constexpr std::string_view same_objects = "ERR source and destination objects are the same";
inline constexpr std::string_view busy_key = "BUSYKEY Target key name already exists.";
inline constexpr std::string_view restore_time_range = "ERR Invalid TTL value, must be >= 0";
inline constexpr std::string_view restore_idle_time_range = "ERR Invalid IDLETIME value, must be >= 0";
inline constexpr std::string_view restore_frequency_range = "ERR Invalid FREQ value, must be >= 0 and <= 255";
inline constexpr std::string_view restore_bad_payload = "ERR DUMP payload version or checksum are wrong";
inline constexpr std::string_view restore_bad_format = "ERR Bad data format";
inline constexpr std::string_view dump_too_large =
    "ERR the filter is larger than one argument may be: use BF.EXPORT or BF.SCANDUMP";
inline constexpr std::string_view no_import_dir =
    "ERR the server runs without import_dir; start it with --import-dir";
inline constexpr std::string_view file_name_empty = "ERR the name of the file is empty";
inline constexpr std::string_view file_name_slash = "ERR the file must be a name in import_dir, without '/'";
inline constexpr std::string_view file_name_dot = "ERR the name of the file must not begin with '.'";
inline constexpr std::string_view file_name_control = "ERR the name of the file has control characters";
inline constexpr std::string_view file_name_long = "ERR the name of the file is longer than 255 bytes";
inline constexpr std::string_view no_frequency =
    "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when "
    "switching between policies at runtime LRU and LFU data will take some time to adjust.";
inline constexpr std::string_view bad_cursor = "ERR invalid cursor";
inline constexpr std::string_view expire_contradiction =
    "ERR NX and XX, GT or LT options at the same time are not compatible";
inline constexpr std::string_view expire_greater_and_less =
    "ERR GT and LT options at the same time are not compatible";

// Connections.
inline constexpr std::string_view first_database_invalid = "ERR invalid first DB index";
inline constexpr std::string_view second_database_invalid = "ERR invalid second DB index";
inline constexpr std::string_view same_object = "ERR source and destination objects are the same";
inline constexpr std::string_view database_range = "ERR DB index is out of range";
inline constexpr std::string_view database_not_int =
    "ERR value is out of range, value must between -2147483648 and 2147483647";
inline constexpr std::string_view login_unchecked =
    "ERR too many logins have failed; this one was not checked, try again outside of a transaction";
inline constexpr std::string_view wrong_password =
    "WRONGPASS invalid username-password pair or user is disabled.";
inline constexpr std::string_view no_password_set =
    "ERR AUTH <password> called without any password configured for the default user. Are you sure your "
    "configuration is correct?";
inline constexpr std::string_view bad_protocol = "ERR Protocol version is not an integer or out of range";
inline constexpr std::string_view no_protocol = "NOPROTO unsupported protocol version";
inline constexpr std::string_view hello_without_authentication =
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH "
    "<user> "
    "<pass> option can be used to authenticate the client and select the RESP protocol version at the same "
    "time";
inline constexpr std::string_view bad_client_name =
    "ERR Client names cannot contain spaces, newlines or special characters.";
inline constexpr std::string_view bad_client_id = "ERR Invalid client ID";
inline constexpr std::string_view client_id_range = "ERR client-id should be greater than 0";
inline constexpr std::string_view bad_max_age = "ERR maxage is not an integer or out of range";
inline constexpr std::string_view max_age_range = "ERR maxage should be greater than 0";
inline constexpr std::string_view no_such_client = "ERR No such client";
inline constexpr std::string_view bad_pause_mode = "ERR CLIENT PAUSE mode must be WRITE or ALL";
inline constexpr std::string_view bad_unblock_reason = "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR";
inline constexpr std::string_view no_tracking =
    "ERR Sepal does not track keys for clients: see docs/protocol.md";
inline constexpr std::string_view prefix_without_broadcast =
    "ERR PREFIX option requires BCAST mode to be enabled";
inline constexpr std::string_view caching_without_tracking =
    "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode "
    "enabled";

// Users.
inline constexpr std::string_view no_acl_file =
    "ERR This Redis instance is not configured to use an ACL file. Name one with the setting aclfile, and "
    "start sepald again.";
inline constexpr std::string_view default_stays = "ERR The 'default' user cannot be removed";
inline constexpr std::string_view password_bits_range =
    "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to "
    "4096";

// The server.
inline constexpr std::string_view slow_log_count = "ERR count should be greater than or equal to -1";
inline constexpr std::string_view invalid_command = "ERR Invalid command specified";
inline constexpr std::string_view invalid_argument_count =
    "ERR Invalid number of arguments specified for command";
inline constexpr std::string_view no_key_arguments = "ERR The command has no key arguments";
inline constexpr std::string_view no_config_file = "ERR The server is running without a config file";
inline constexpr std::string_view save_in_progress = "ERR Background save already in progress";
inline constexpr std::string_view rewrite_in_progress =
    "ERR Background append only file rewriting already in progress";
inline constexpr std::string_view no_module_command =
    "ERR MODULE command not allowed. If the enable-module-command option is set to \"local\", you can run it "
    "from a local connection, otherwise you need to set this option in the configuration file, and then "
    "restart the server.";
inline constexpr std::string_view no_debug_command =
    "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it "
    "from a local connection, otherwise you need to set this option in the configuration file, and then "
    "restart the server.";
inline constexpr std::string_view no_shutdown = "ERR No shutdown in progress.";

// Replication, and waiting for it.
inline constexpr std::string_view timeout_not_int = "ERR timeout is not an integer or out of range";
inline constexpr std::string_view timeout_negative = "ERR timeout is negative";
inline constexpr std::string_view timeout_range = "ERR timeout is out of range";
inline constexpr std::string_view zero_or_one_range = "ERR value is out of range, value must between 0 and 1";
inline constexpr std::string_view positive_range = "ERR value is out of range, must be positive";
inline constexpr std::string_view wait_without_journal =
    "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.";
inline constexpr std::string_view bad_master_port = "ERR Invalid master port";
inline constexpr std::string_view no_replication =
    "ERR Sepal does not replicate: see the part about replication in docs/protocol.md";
inline constexpr std::string_view no_replicas =
    "ERR Sepal has no replicas: docs/operations/data.md says how to make a backup";
inline constexpr std::string_view failover_without_replicas = "ERR FAILOVER requires connected replicas.";
inline constexpr std::string_view no_failover = "ERR No failover in progress.";

}  // namespace text
}  // namespace sepal::command
