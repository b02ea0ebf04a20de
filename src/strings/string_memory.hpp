// The memory of a large string: addresses for the longest string there can be, of which the first part may be
// used. A string that grows makes that part larger and copies nothing: the larger string shares the memory
// with the one that it replaces, which a save may still read.
#pragma once

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/smart_ptr/intrusive_ref_counter.hpp>

#include <cstdint>

#include "strings/pages.hpp"

namespace sepal::strings {

// grow() is exclusive; the rest may be called by any thread. Intrusive, because reserve() makes one
// allocation then, whose failure it can answer.
class StringMemory final : public boost::intrusive_ref_counter<StringMemory, boost::thread_safe_counter> {
 public:
  // Whether limit_mappings() (strings/string.hpp) leaves room for one more.
  [[nodiscard]] static bool has_room();
  // Null when the system refuses the addresses or the memory. Asks no limit.
  static StringMemoryPtr reserve(std::uint64_t bytes);
  ~StringMemory();
  StringMemory(const StringMemory&) = delete;
  StringMemory& operator=(const StringMemory&) = delete;

  // Lets the first so many bytes be used. False when the system refuses that.
  [[nodiscard]] bool grow(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t* words() const { return words_; }
  [[nodiscard]] Pages& pages() { return pages_; }

  // The memory of one, without the pages that are touched.
  static std::uint64_t footprint();

 private:
  explicit StringMemory(std::uint64_t* words);

  std::uint64_t* words_;
  std::uint64_t bytes_ = 0;  // that may be used
  Pages pages_;
};

}  // namespace sepal::strings
