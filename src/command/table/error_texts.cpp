#include <sepal/base/arguments.hpp>
#include <sepal/bloom/plan/schemes.hpp>
#include <sepal/command/table/command_table.hpp>
#include <sepal/command/table/error_texts.hpp>
#include <sepal/keyspace/keyspace.hpp>
#include <sepal/strings/string.hpp>

#include <algorithm>
#include <utility>

namespace sepal::command {
namespace {

// The texts are constants, so they cannot be made from the limits that they name.
static_assert(keyspace::key_bytes_max == 65536, "text::key_too_long names it");
static_assert(strings::sparse_strings_max == 131072, "text::too_many_sparse_strings names it");
static_assert(keyspace::mirrors_max == 256, "text::too_many_mirrors names it");

// Where a code means something else in some command, that handler has a text of its own (refused_upload(),
// answer_restore(), ...), and asks this table for the other codes.
constexpr std::pair<Errc, std::string_view> texts[] = {
    {Errc::out_of_range, text::cannot_create},
    {Errc::too_large, text::no_memory_for_filter},
    {Errc::memory_limit, text::no_memory_for_filter},
    {Errc::out_of_memory, text::no_memory_for_filter},
    {Errc::mapping_limit, text::too_many_sparse_strings},
    {Errc::no_such_key, text::no_such_key},
    {Errc::key_exists, text::filter_exists},
    {Errc::filter_full, text::filter_full},
    {Errc::layer_limit, text::too_many_layers},
    {Errc::key_limit, text::too_many_keys},
    {Errc::key_too_long, text::key_too_long},
    {Errc::io, "ERR the disk failed"},
    {Errc::disk_full, "ERR the disk is full"},
    {Errc::read_only, "ERR the place may not be written"},
    {Errc::in_use, text::save_in_progress},
    {Errc::not_found, text::no_config_file},
    {Errc::damaged, "ERR the data is damaged"},
    {Errc::unsupported_version, "ERR the format is newer than this server"},
    {Errc::not_recorded, "MISCONF Errors writing to the journal"},
    {Errc::invalid_setting, "ERR the setting is not valid"},
};

}  // namespace

std::string_view text_of(Errc code) {
  const auto* const found = std::ranges::find(texts, code, &std::pair<Errc, std::string_view>::first);
  return found != std::end(texts) ? found->second : "ERR unknown failure";
}

std::string transaction_discarded(std::string_view reason) {
  constexpr std::string_view code = "ERR ";
  // EXECABORT takes the place of ERR. Another code (MISCONF, OOM) stays, because it says more.
  if (reason.starts_with(code)) reason.remove_prefix(code.size());
  return "EXECABORT Transaction discarded because of: " + std::string(reason);
}

std::string bad_expire_time(std::string_view command_name) {
  return "ERR invalid expire time in '" + std::string(command_name) + "' command";
}

std::string no_permission(std::string_view reason) {
  return "NOPERM " + std::string(reason);
}

std::string unsupported_option(std::string_view word) {
  return "ERR Unsupported option " + std::string(echoed(word));
}

std::string too_many_names() {
  return "ERR too many command names: the limit is " + std::to_string(described_names_max);
}

std::string too_many_parameters() {
  return "ERR too many parameter names: the limit is " + std::to_string(described_names_max);
}

std::string_view reason_of(keyspace::MirrorState state) {
  switch (state) {
    case keyspace::MirrorState::full: return "the target does not scale and is full";
    case keyspace::MirrorState::layer_limit: return "the target has as many layers as it may have";
    case keyspace::MirrorState::no_memory: return "there was no memory for the target to grow";
    default: return "";
  }
}

std::string broken_mirror(keyspace::MirrorState state) {
  return "ERR the mirror is broken: " + std::string(reason_of(state)) +
         "; say BF.MIRROR source COMMIT FORCE to do it all the same";
}

std::string journal_refuses(std::string_view reason) {
  return "MISCONF Errors writing to the journal: " + std::string(reason);
}

std::string unknown_scheme() {
  std::string text = "ERR unknown scheme: known are guava";
  for (const bloom::SchemeFacts& facts : bloom::schemes()) {
    text += ", ";
    text += facts.name;
  }
  return text;
}

// With these codes a disk or a file has failed, or a limit is exceeded that is a setting, and only the detail
// says more. The other codes have a text that clients know.
std::string reason_text(const Error& error) {
  switch (error.code) {
    case Errc::not_recorded: return journal_refuses(error.detail);
    case Errc::in_use: return error.detail.empty() ? std::string(text_of(error.code)) : error.detail;
    case Errc::layer_limit:
    case Errc::io:
    case Errc::disk_full:
    case Errc::read_only:
    case Errc::not_found:
    case Errc::damaged:
    case Errc::unsupported_version:
      return error.detail.empty() ? std::string(text_of(error.code)) : "ERR " + error.detail;
    default: return std::string(text_of(error.code));
  }
}

}  // namespace sepal::command
