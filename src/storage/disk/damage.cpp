#include "storage/disk/damage.hpp"

#include <sepal/storage/disk/fact.hpp>

namespace sepal::storage {
namespace {

// A version that is further ahead than this is taken for damage.
constexpr std::uint32_t later_versions_max = 100;

}  // namespace

Error damaged_at(std::uint64_t offset, std::string_view what) {
  return fail(Errc::damaged, "is damaged at offset " + std::to_string(offset) + ": " + std::string(what));
}

Error unsupported(std::uint32_t found, const KnownVersions& known) {
  const std::string last = std::to_string(known.last);
  // The version is read before the checksum is verified, so the version itself may be damaged. A flipped bit
  // mostly leads far ahead.
  if (found > known.last && found - known.last <= later_versions_max)
    return fail(Errc::unsupported_version, "was written by a newer version of Sepal (format " +
                                               std::to_string(found) + ", this version reads up to " + last +
                                               ")");
  const std::string readable = known.first == known.last ? last : std::to_string(known.first) + " to " + last;
  return fail(Errc::damaged, "has format version " + std::to_string(found) +
                                 " or flags that are unknown, and this version reads format " + readable +
                                 " without flags");
}

Error at_offset(std::uint64_t offset, const Error& error) {
  if (error.code == Errc::damaged) return damaged_at(offset, error.detail);
  const std::string place = "has a change at offset " + std::to_string(offset);
  if (error.code == Errc::unsupported_version) return fail(error.code, place + ": " + error.detail);
  return fail(error.code, place + " that this machine's memory is too small for: " + error.detail);
}

std::string printable(std::string_view bytes) {
  constexpr std::size_t length_max = 32;
  std::string text;
  for (const char c : bytes.substr(0, length_max)) text += c >= ' ' && c <= '~' ? c : '?';
  return bytes.size() > length_max ? text + "..." : text;
}

std::string key_text(std::uint32_t database, std::string_view key) {
  return Fact("the filter").number("database", database).text("key", key).line();
}

std::string quoted_path(const std::filesystem::path& path) {
  std::string text = "'";
  for (const char c : path.string()) {
    if (c == '\'') text += "'\\'";
    text += c;
  }
  return text + "'";
}

bool is_damage(const Error& error) {
  return error.code == Errc::damaged || error.code == Errc::unsupported_version;
}

bool is_over_limit(const Error& error) {
  return error.code == Errc::too_large || error.code == Errc::layer_limit;
}

Error about(std::string_view subject, const Error& error) {
  return fail(error.code, std::string(subject) + " " + error.detail);
}

Error with_advice(const Error& error, std::string_view advice) {
  return fail(error.code, error.detail + "; " +
                              std::string(error.code == Errc::unsupported_version ? use_newer : advice));
}

// Takes out the part between two "; " that names salvage. with_advice() has put the advice at the end, and
// callers may have added further parts.
std::string without_salvage_advice(std::string sentence) {
  const std::size_t named = sentence.rfind("sepal salvage");
  const std::size_t begin = named == std::string::npos ? named : sentence.rfind("; ", named);
  if (begin == std::string::npos) return sentence;
  const std::size_t end = sentence.find("; ", named);
  return sentence.erase(begin, end == std::string::npos ? end : end - begin);
}

}  // namespace sepal::storage
