// The families of rows. Each stands behind its handlers (command_row.hpp), and command_table.cpp joins them
// when the process starts. All are constants, so they are there before.
#pragma once

#include <sepal/command/table/command_table.hpp>

#include <span>

namespace sepal::command {

using Rows = std::span<const CommandSpec>;

extern const Rows absent_rows;
extern const Rows acl_rows;
extern const Rows bit_field_rows;
extern const Rows bitmap_rows;
extern const Rows bloom_rows;
extern const Rows chunk_rows;
extern const Rows client_rows;
extern const Rows command_rows;
extern const Rows config_rows;
extern const Rows connection_rows;
extern const Rows cuckoo_rows;
extern const Rows expire_rows;
extern const Rows find_rows;
extern const Rows import_bitmap_rows;
extern const Rows info_rows;
extern const Rows key_rows;
extern const Rows latency_rows;
extern const Rows mirror_rows;
extern const Rows monitor_rows;
extern const Rows object_rows;
extern const Rows remake_rows;
extern const Rows replication_rows;
extern const Rows scan_rows;
extern const Rows script_rows;
extern const Rows server_rows;
extern const Rows slow_log_rows;
extern const Rows stats_rows;
extern const Rows string_rows;
extern const Rows transaction_rows;
extern const Rows transfer_rows;
extern const Rows whole_rows;
extern const Rows window_rows;

// All of them.
inline constexpr const Rows* own_families[] = {
    &absent_rows,  &acl_rows,           &bit_field_rows, &bitmap_rows,      &bloom_rows,       &chunk_rows,
    &client_rows,  &command_rows,       &config_rows,    &connection_rows,  &cuckoo_rows,      &expire_rows,
    &find_rows,    &import_bitmap_rows, &info_rows,      &key_rows,         &latency_rows,     &mirror_rows,
    &monitor_rows, &object_rows,        &remake_rows,    &replication_rows, &scan_rows,        &script_rows,
    &server_rows,  &slow_log_rows,      &stats_rows,     &string_rows,      &transaction_rows, &transfer_rows,
    &whole_rows,   &window_rows};

// Those of the program: families.cpp has nothing else. A program with commands of its own defines them in its
// place.
extern const std::span<const Rows* const> families;

}  // namespace sepal::command
