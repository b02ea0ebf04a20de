// Moves filters from one server to another.
//
//     small    DUMP -> RESTORE                 many at once
//     large    BF.SCANDUMP -> BF.LOADCHUNK     piece after piece: a Bloom filter is under its key with the
//     last
//                                              one
//
// A cuckoo filter is copied by DUMP and RESTORE as long as its payload fits into one request. An add may move
// fingerprints of other items, so pieces that are taken while clients add can lack some of them. A larger one
// is copied in pieces to a temporary key, and refused if CF.INFO tells of changes meanwhile.
//
// A filter with a window has no pieces. It is copied by DUMP and RESTORE, and refused if it is larger than a
// request may be. Source and target go by their clocks: both forget alike if these agree.
//
// A filter of the target that differs is replaced, unless clients of the target have changed it.
#pragma once

#include <sepal/base/result.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tools/redis/moving.hpp"

namespace sepal::tools {

// Confined. Blocks. Memory: some pieces; twice the size of a cuckoo filter, or of one with
// a window. Errors of all members: io.
class FilterMover {
 public:
  explicit FilterMover(MoveParts parts);

  // `there` has what the target has under the keys of `filters`. Keys of other types are left out.
  Result<void> move(std::uint32_t database, std::span<const RemoteKey> filters,
                    std::span<const RemoteKey> there);
  // Asks some filters for random items, at both servers. Calls `next` behind each.
  Result<void> check(const std::function<void()>& next);
  [[nodiscard]] std::size_t sample_count() const { return samples_.kept().size(); }

  // So much a filter counts in the progress.
  [[nodiscard]] static std::uint64_t weight_of(const RemoteKey& filter);
  static void count(const RemoteKey& filter, MovedKeys& keys);

 private:
  struct Sample {
    std::uint32_t database = 0;
    RemoteKey filter;
  };
  // What is to be done with a filter.
  enum class Verdict : std::uint8_t { copy, same, deadline, conflict };

  [[nodiscard]] Verdict verdict(const RemoteKey& source, const RemoteKey& target) const;
  Result<bool> needs_copy(const RemoteKey& source, const RemoteKey& target);
  Result<void> copy_small(std::span<const RemoteKey* const> filters);
  Result<void> restore(const RemoteKey& filter, std::string_view payload);
  Result<void> arrived(const RemoteKey& filter, ReplyView stored, ReplyView info);
  Result<void> judge_figures(const RemoteKey& filter, const FilterFigures& there);
  Result<void> copy_large(const RemoteKey& filter);
  Result<std::string> copy_under_its_key(const RemoteKey& filter);
  Result<std::string> copy_aside(const RemoteKey& filter);
  Result<std::string> copy_pieces(const RemoteKey& filter, const std::string& to,
                                  const std::function<Result<std::string>()>& stored);
  Result<FilterFigures> figures_now(const RemoteKey& filter);

  Result<void> check(const Sample& one);
  void judge(const Sample& one, ReplyView ours, ReplyView theirs, bool unchanged);
  void refuse(const RemoteKey& filter, const std::string& why);

  MoveParts parts_;
  std::uint32_t database_ = 0;
  TemporaryKey temporary_;  // of the large cuckoo filter that is being copied
  std::mt19937_64 random_;
  Reservoir<Sample> samples_;
};

}  // namespace sepal::tools
