// Moves strings from one server to another.
//
//     short    GET and SET, several in one go
//     long     GETRANGE, SETRANGE of a temporary key, RENAME: the string is under its key when it is whole.
//              Pages of zeros are not sent, so a sparse string stays sparse.
//
// A string of the target that differs is replaced, unless it only has bits in addition to those of the
// source: then clients have set them at the target, as clients of a Bloom filter do.
#pragma once

#include <sepal/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/redis/moving.hpp"

namespace sepal::tools {

// Which of two strings has a bit that the other one lacks, or is longer.
struct StringDifference {
  bool first_has_more = false;
  bool second_has_more = false;
};
[[nodiscard]] StringDifference difference_of(std::string_view first, std::string_view second);

// Calls visit(offset, bytes) for the parts of `bytes` that are not pages of zeros, as long as possible each.
// `bytes` begin at a page.
inline constexpr std::size_t string_page_bytes = 4096;
void each_part_with_bits(std::string_view bytes,
                         const std::function<void(std::size_t, std::string_view)>& visit);

// A string of the source, and what the target has under its key.
struct StringPair {
  const RemoteKey* source = nullptr;
  const RemoteKey* target = nullptr;
};

// Confined. Blocks. Memory: some pieces. Errors of all members: io.
class StringMover {
 public:
  explicit StringMover(MoveParts parts);

  Result<void> move(std::uint32_t database, std::span<const StringPair> pairs);
  // Reads a piece of some strings again, at both servers.
  Result<void> check();
  [[nodiscard]] std::size_t sample_count() const { return samples_.kept().size(); }

 private:
  // A piece of a string as it was read from the source, for the check.
  struct Sample {
    std::uint32_t database = 0;
    std::string key;
    bool has_deadline = false;
    std::uint64_t offset = 0;
    std::uint64_t byte_count = 0;
    std::uint64_t digest = 0;

    void look(std::uint64_t piece_offset, std::string_view bytes);
  };

  // What both servers have of a short string.
  struct ShortPair {
    StringPair pair;
    RedisReply ours;
    RedisReply theirs;  // no text: the target has no string
    Sample sample;
  };

  Result<std::vector<ShortPair>> read_short(std::span<const StringPair> pairs);
  Result<void> move_short(std::span<const StringPair> pairs);
  Result<void> move_long(const StringPair& pair);
  Result<std::optional<StringDifference>> compare(const StringPair& pair, Sample& sample);
  Result<std::string> copy_pieces(const RemoteKey& source, Sample& sample);
  Result<std::string> begin_copy(const RemoteKey& source);
  Result<std::string> store_piece(std::uint64_t offset, std::string_view bytes);

  [[nodiscard]] Sample sample_of(const RemoteKey& source);
  Result<bool> needs_copy(const StringPair& pair, StringDifference difference, const Sample& sample);
  void moved(std::uint64_t byte_count, const Sample& sample);
  void refuse(const RemoteKey& source, const std::string& why);
  Result<void> check(const Sample& sample);

  MoveParts parts_;
  std::uint32_t database_ = 0;
  std::mt19937_64 random_;
  TemporaryKey temporary_;  // of the long string that is being copied
  Reservoir<Sample> samples_;
};

}  // namespace sepal::tools
