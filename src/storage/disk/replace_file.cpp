#include <sepal/storage/disk/disk.hpp>

#include <algorithm>

namespace sepal::storage {
namespace {

constexpr std::string_view aside_prefix = ".sepal-";
constexpr std::string_view aside_suffix = ".tmp";
constexpr std::string_view aside_alphabet = "0123456789abcdef";
constexpr std::size_t aside_digits = 2 * sizeof(std::uint64_t);

}  // namespace

std::string aside_name(std::uint64_t number) {
  std::string name(aside_prefix);
  for (std::size_t digit = aside_digits; digit > 0; --digit)
    name += aside_alphabet[static_cast<std::size_t>(number >> (4 * (digit - 1))) & 15];
  return name.append(aside_suffix);
}

// A start removes files with such names from the data directory (adopted_files.hpp), so the test is strict.
bool is_aside_name(std::string_view name) {
  if (name.size() != aside_prefix.size() + aside_digits + aside_suffix.size()) return false;
  const std::string_view digits = name.substr(aside_prefix.size(), aside_digits);
  return name.starts_with(aside_prefix) && name.ends_with(aside_suffix) &&
         std::ranges::all_of(digits, [](char c) { return aside_alphabet.find(c) != std::string_view::npos; });
}

Result<void> replace_file(Disk& disk, const Path& target, std::span<const std::byte> contents) {
  // In the same directory, because a rename across file systems fails. The file is synced before it is
  // renamed: otherwise a power cut could leave the target's name on an empty file. It has a name that nothing
  // else has, so no folder with its name can be in the way.
  auto aside = disk.create_aside(target);
  if (!aside) return aside.error();
  Result<void> done = aside->file->write_at(0, contents);
  if (done) done = aside->file->sync();
  if (done) done = disk.rename(aside->path, target);
  // A failed sync is reported, but nothing is taken back: the rename is done, and readers see the new
  // contents.
  if (done) return disk.sync_directory(target.parent_path());
  // Reports the first error. A start removes a file that could not be removed here.
  static_cast<void>(disk.remove(aside->path));
  return done;
}

}  // namespace sepal::storage
