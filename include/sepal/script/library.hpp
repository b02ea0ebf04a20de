// The scripts that the server knows, by the SHA-1 of their text.
#pragma once

#include <sepal/base/result.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

namespace sepal::script {

inline constexpr std::size_t sha_digits = 40;

// What a script declares in its first line, "#!lua flags=no-writes".
struct Declared {
  bool any = false;  // there is such a line. Without it, each command is checked when the script calls it
  bool no_writes = false;
  bool allow_oom = false;
};

struct Source {
  std::string sha;   // 40 lower-case digits
  std::string text;  // whole, as the client sent it
  Declared declared;
  std::size_t code_at = 0;  // behind the first line's declaration: its line end stays, for the line numbers
  // The library has evicted it, so the workers that have compiled it may drop it. Guarded by the gate.
  mutable bool forgotten = false;
};

// The error is what the client is told, without "ERR".
struct ParsedSource {
  std::shared_ptr<const Source> source;  // null: there is an error
  std::string error;
};
[[nodiscard]] ParsedSource parse_source(std::string_view text);

// Guarded by the gate: changed with the gate closed. Scripts of SCRIPT LOAD stay; of the scripts that only
// EVAL brought, the ones used last stay (as with the reference).
class Library {
 public:
  static constexpr std::size_t passing_max = 500;
  // What the library takes for a script, beside its text.
  static constexpr std::uint64_t entry_bytes = 512;

  // Null if it is unknown. The script counts as used now. `sha` has lower-case digits.
  [[nodiscard]] std::shared_ptr<const Source> use(std::string_view sha);
  [[nodiscard]] bool contains(std::string_view sha) const { return entries_.contains(sha); }
  // `passing`: by EVAL. The texts may take `bytes_max` together: passing scripts make room, the oldest first.
  // False: the script is not kept, because those of SCRIPT LOAD take the room.
  [[nodiscard]] bool add(const std::shared_ptr<const Source>& source, bool passing, std::uint64_t bytes_max);
  void clear();

  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] std::uint64_t byte_count() const { return byte_count_; }
  // Grows with each clear(): the workers then drop what they have compiled.
  [[nodiscard]] std::uint64_t generation() const { return generation_; }
  [[nodiscard]] std::uint64_t evicted_count() const { return evicted_count_; }
  void reset_evicted_count() { evicted_count_ = 0; }

 private:
  struct Entry {
    std::shared_ptr<const Source> source;
    bool passing = false;
    std::list<std::string>::iterator place{};  // in passing_, if it is one
  };
  struct Hash {
    // NOLINTNEXTLINE(readability-identifier-naming): the standard library looks for this name.
    using is_transparent = void;
    // A part of a digest is spread as evenly as a hash of it.
    std::size_t operator()(std::string_view sha) const {
      std::size_t part = 0;
      std::memcpy(&part, sha.data(), std::min(sizeof part, sha.size()));
      return part * 0x9e3779b97f4a7c15;
    }
  };
  void evict_oldest();

  std::unordered_map<std::string, Entry, Hash, std::equal_to<>> entries_;
  std::list<std::string> passing_;  // used last: at the end
  std::uint64_t byte_count_ = 0;
  std::uint64_t generation_ = 0;
  std::uint64_t evicted_count_ = 0;
};

}  // namespace sepal::script
