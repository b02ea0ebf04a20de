// Files of a Disk as text, and what its errors say.
#pragma once

#include <sepal/storage/disk/disk.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "support/catch.hpp"

namespace sepal::test {

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// The first hundred bytes of a file.
inline std::string text_of(storage::Disk& disk, const storage::Path& path) {
  auto file = disk.open(path);
  REQUIRE(file);
  std::string text(100, '\0');
  const auto count = (*file)->read_at(0, std::as_writable_bytes(std::span(text.data(), text.size())));
  REQUIRE(count);
  text.resize(*count);
  return text;
}

inline bool mentions(const Error& error, const std::string& what) {
  return error.detail.find(what) != std::string::npos;
}

}  // namespace sepal::test
