// Sentences about what is wrong with a file. They leave out the file's name and the advice; callers that know
// these add them with about() and with_advice().
#pragma once

#include <sepal/base/result.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace sepal::storage {

[[nodiscard]] inline Error damaged(const char* what) {
  return fail(Errc::damaged, what);
}
[[nodiscard]] Error damaged_at(std::uint64_t offset, std::string_view what);
// The versions of a format that this build reads. No release of Sepal wrote those before the first.
struct KnownVersions {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
  [[nodiscard]] constexpr bool has(std::uint32_t found) const { return found >= first && found <= last; }
};
// For a file whose format version or flags this build does not know. Errors: unsupported_version for a
// version that a newer build may write; damaged otherwise.
[[nodiscard]] Error unsupported(std::uint32_t found, const KnownVersions& known);

// The error of a change in the journal, with the offset of its frame.
[[nodiscard]] Error at_offset(std::uint64_t offset, const Error& error);

// Whether the file's contents are the problem (damaged, or of a newer version), and not its reader or its
// disk.
[[nodiscard]] bool is_damage(const Error& error);
// Whether the filter exceeds the reader's limits: its bytes (too_large), or its layers (layer_limit).
[[nodiscard]] bool is_over_limit(const Error& error);

// A text like: the filter database=3 key="users". Escapes what cannot be printed.
[[nodiscard]] std::string key_text(std::uint32_t database, std::string_view key);

// Bytes from a disk, made fit for a message: cut to a short length, without control characters.
[[nodiscard]] std::string printable(std::string_view bytes);

// Quotes a path for a shell, because the advice in errors is copied into one.
[[nodiscard]] std::string quoted_path(const std::filesystem::path& path);

// about() puts the name of the file in front of an error's sentence; with_advice() adds what to do at its
// end. The contents of a file of a newer version are whole, so with_advice() then adds `use_newer` instead.
[[nodiscard]] Error about(std::string_view subject, const Error& error);
inline constexpr std::string_view restore_or_salvage =
    "restore the data directory from a backup, or save what is whole with sepal salvage";
inline constexpr std::string_view use_newer = "use that version, or restore the data directory from a backup";
[[nodiscard]] Error with_advice(const Error& error, std::string_view advice);
// The same sentence without advice to use sepal salvage: for those who do so.
[[nodiscard]] std::string without_salvage_advice(std::string sentence);

}  // namespace sepal::storage
