#include "damage.hpp"

#include <sepal/storage/examine.hpp>

namespace sepal::storage {

Error damaged_at(std::uint64_t offset, std::string_view what) {
  return fail(Errc::damaged, "is damaged at offset " + std::to_string(offset) + ": " + std::string(what));
}

Error unsupported(std::uint32_t found, std::uint32_t known) {
  return fail(Errc::unsupported_version, "has format version " + std::to_string(found) +
                                             " or flags that are unknown, and this build reads version " +
                                             std::to_string(known) + " without flags");
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

bool is_damage(const Error& error) {
  return error.code == Errc::damaged || error.code == Errc::unsupported_version;
}

Error about(std::string_view subject, const Error& error) {
  return fail(error.code, std::string(subject) + " " + error.detail);
}

Error with_advice(const Error& error, std::string_view advice) {
  return fail(error.code, error.detail + "; " + std::string(advice));
}

}  // namespace sepal::storage
