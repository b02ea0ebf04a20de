// The handlers that the rows of the command table name. Each answers one request. command_table.hpp says what
// it returns.
#pragma once

#include <sepal/command/table/command_table.hpp>

namespace sepal::command {

// Where the items of a request begin, for rows whose requests may run in parts.
constexpr std::size_t items_behind_name(std::span<const std::string_view> /*words*/) {
  return 1;
}
constexpr std::size_t items_behind_key(std::span<const std::string_view> /*words*/) {
  return 2;
}

// bloom_commands.cpp
Next bf_add(Context& context);
Next bf_add_together(Context& context, std::span<const std::string_view> items, std::span<bool> added);
Next bf_card(Context& context);
Next bf_debug(Context& context);
Next bf_exists(Context& context);
Next bf_exists_together(Context& context, std::span<const std::string_view> items, std::span<bool> present);
Next bf_info(Context& context);
Next bf_insert(Context& context);
std::size_t items_of_insert(std::span<const std::string_view> words);
Next bf_madd(Context& context);
Next bf_mexists(Context& context);
Next bf_reserve(Context& context);

// stats_commands.cpp
Next bf_stats(Context& context);

// acl_commands.cpp
Next acl_categories_of(Context& context);  // ACL CAT
Next acl_delete_users(Context& context);
Next acl_dry_run(Context& context);
Next acl_generate_password(Context& context);
Next acl_get_user(Context& context);
Next acl_list(Context& context);
Next acl_load(Context& context);
Next acl_log(Context& context);
Next acl_save(Context& context);
Next acl_set_user(Context& context);
Next acl_users(Context& context);
Next acl_who_am_i(Context& context);

// transaction_commands.cpp
Next multi(Context& context);
Next exec(Context& context);
Next discard(Context& context);
Next watch(Context& context);
Next unwatch(Context& context);

// script_commands.cpp
Next call_function(Context& context);   // FCALL, FCALL_RO
Next eval(Context& context);            // EVAL, EVAL_RO
Next eval_by_digest(Context& context);  // EVALSHA, EVALSHA_RO
Next function_flush(Context& context);
Next function_kill(Context& context);
Next function_list(Context& context);
Next function_stats(Context& context);
Next refuse_function(Context& context);  // FUNCTION DELETE, DUMP, LOAD, RESTORE
Next script_debug(Context& context);
Next script_exists(Context& context);
Next script_flush(Context& context);
Next script_kill(Context& context);
Next script_load(Context& context);

// bitmap_commands.cpp
Next bit_field(Context& context);     // BITFIELD, BITFIELD_RO
Next combine_bits(Context& context);  // BITOP
Next count_bits(Context& context);
Next find_bit(Context& context);  // BITPOS
Next get_bit(Context& context);
Next get_bit_together(Context& context, std::span<const std::string_view> positions, std::span<bool> bits);
Next set_bit(Context& context);
Next set_bit_together(Context& context, std::span<const std::string_view> positions,
                      std::span<bool> were_set);

// string_commands.cpp
Next append(Context& context);
Next decrement(Context& context);
Next decrement_by(Context& context);
Next get(Context& context);
Next get_and_delete(Context& context);
Next get_and_expire(Context& context);  // GETEX
Next get_and_set(Context& context);
Next get_many(Context& context);
Next get_range(Context& context);  // GETRANGE, SUBSTR
Next increment(Context& context);
Next increment_by(Context& context);
Next set(Context& context);
Next set_if_free(Context& context);
Next set_many(Context& context);
Next set_many_if_free(Context& context);
Next set_range(Context& context);
Next set_with_milliseconds(Context& context);  // PSETEX
Next set_with_seconds(Context& context);
Next string_length(Context& context);

// mirror_commands.cpp
Next bf_mirror(Context& context);

// transfer_commands.cpp
Next bf_load_chunk(Context& context);
Next bf_scan_dump(Context& context);

// key_commands.cpp
Next count_existing(Context& context);  // EXISTS, TOUCH
Next dbsize(Context& context);
Next del(Context& context);  // DEL, UNLINK
// What these requests do with their keys, and which of them only ask (key_uses.cpp).
KeyUse key_use_of_bit_field(std::span<const std::string_view> words);
KeyUse key_use_of_mirror(std::span<const std::string_view> words);
KeyUse key_use_of_set(std::span<const std::string_view> words);
bool asks_bit_field(std::span<const std::string_view> words);
bool asks_get_ex(std::span<const std::string_view> words);
bool asks_mirror(std::span<const std::string_view> words);
bool frees_by_mirror(std::span<const std::string_view> words, WallTime now);
bool frees_always(std::span<const std::string_view> words, WallTime now);
Next flush_all(Context& context);
Next flush_database(Context& context);
Next move(Context& context);
Next random_key(Context& context);
Next rename(Context& context);
Next rename_if_free(Context& context);
Next swap_databases(Context& context);
Next type(Context& context);

// object_commands.cpp
Next memory_allocator_statistics(Context& context);  // MEMORY MALLOC-STATS
Next memory_doctor(Context& context);
Next memory_purge(Context& context);
Next memory_statistics(Context& context);
Next memory_usage(Context& context);
Next object_encoding(Context& context);
Next object_frequency(Context& context);
Next object_idle_time(Context& context);
Next object_reference_count(Context& context);

// replication_commands.cpp
Next fail_over(Context& context);
Next refuse_replica(Context& context);  // PSYNC, REPLCONF, SYNC
Next replica_of(Context& context);      // REPLICAOF, SLAVEOF
Next wait(Context& context);
Next wait_for_journal(Context& context);  // WAITAOF

// whole_commands.cpp
Next bf_export(Context& context);
Next bf_import(Context& context);
Next bf_import_bitmap(Context& context);
Next copy(Context& context);
Next dump(Context& context);
Next restore(Context& context);

// expire_commands.cpp
Next expire(Context& context);
bool frees_by_expire(std::span<const std::string_view> words, WallTime now);
bool frees_by_expire_at(std::span<const std::string_view> words, WallTime now);
bool frees_by_milliseconds_expire(std::span<const std::string_view> words, WallTime now);
bool frees_by_milliseconds_expire_at(std::span<const std::string_view> words, WallTime now);
Next expire_at(Context& context);
Next expire_time(Context& context);
Next milliseconds_expire(Context& context);       // PEXPIRE
Next milliseconds_expire_at(Context& context);    // PEXPIREAT
Next milliseconds_expire_time(Context& context);  // PEXPIRETIME
Next milliseconds_to_live(Context& context);      // PTTL
Next persist(Context& context);
Next time_to_live(Context& context);

// scan_commands.cpp
Next keys(Context& context);
Next scan(Context& context);

// connection_commands.cpp
Next authenticate(Context& context);
Next echo(Context& context);
Next hello(Context& context);
Next ping(Context& context);
Next quit(Context& context);
Next refuse_cluster(Context& context);  // ASKING, CLUSTER, READONLY, READWRITE
Next reset(Context& context);
Next select(Context& context);

// monitor_commands.cpp
Next monitor(Context& context);

// pause_commands.cpp
Next client_pause(Context& context);
Next client_unpause(Context& context);

// client_commands.cpp
Next client_get_name(Context& context);
Next client_id(Context& context);
Next client_info(Context& context);
Next client_kill(Context& context);
Next client_list(Context& context);
Next client_no_evict(Context& context);
Next client_no_touch(Context& context);
Next client_reply(Context& context);
Next client_set_info(Context& context);
Next client_set_name(Context& context);

// tracking_commands.cpp
Next client_caching(Context& context);
Next client_get_redirection(Context& context);  // CLIENT GETREDIR
Next client_tracking(Context& context);
Next client_tracking_info(Context& context);
Next client_unblock(Context& context);

// latency_commands.cpp
Next latency_doctor(Context& context);
Next latency_graph(Context& context);
Next latency_histogram(Context& context);
Next latency_history(Context& context);
Next latency_latest(Context& context);
Next latency_reset(Context& context);

// slow_log_commands.cpp
Next slow_log_get(Context& context);
Next slow_log_length(Context& context);  // SLOWLOG LEN
Next slow_log_reset(Context& context);

// command_commands.cpp, command_docs.cpp
Next command_count(Context& context);
Next command_docs(Context& context);
Next command_get_keys(Context& context);
Next command_get_keys_and_flags(Context& context);
Next command_info(Context& context);  // COMMAND and COMMAND INFO
Next command_list(Context& context);
Next subcommand_help(Context& context);  // CLIENT HELP, CONFIG HELP, ...

// config_commands.cpp
Next config_get(Context& context);
Next config_reset_stat(Context& context);
Next config_rewrite(Context& context);
Next config_set(Context& context);

// info_commands.cpp
Next info(Context& context);

// server_commands.cpp
Next background_save(Context& context);
Next last_save(Context& context);
Next lolwut(Context& context);
Next module_list(Context& context);
Next refuse_debug(Context& context);
Next refuse_module(Context& context);    // MODULE LOAD, LOADEX, UNLOAD
Next rewrite_journal(Context& context);  // BGREWRITEAOF
Next role(Context& context);
Next save(Context& context);
Next shut_down(Context& context);
Next time(Context& context);

}  // namespace sepal::command
