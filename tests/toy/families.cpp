// The families of toy_sepald, in place of src/command/table/families.cpp.
#include "command/table/families.hpp"

namespace sepal::command {

extern const Rows toy_rows;

namespace {

constexpr const Rows* all_families[] = {
    &absent_rows,        &acl_rows,      &bit_field_rows,   &bitmap_rows,     &bloom_rows,
    &client_rows,        &command_rows,  &config_rows,      &connection_rows, &expire_rows,
    &import_bitmap_rows, &info_rows,     &key_rows,         &latency_rows,    &mirror_rows,
    &monitor_rows,       &object_rows,   &replication_rows, &scan_rows,       &script_rows,
    &server_rows,        &slow_log_rows, &stats_rows,       &string_rows,     &toy_rows,
    &transaction_rows,   &transfer_rows, &whole_rows};

}  // namespace

constinit const std::span<const Rows* const> families = all_families;

}  // namespace sepal::command
