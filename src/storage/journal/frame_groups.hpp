// Puts the groups of a journal's frames together: a group may come in several reads, and from several
// segments.
//
//     frames of one read:    a  b  G1 G2      apply(a b)       kept: G1 G2       both continue
//     of the next read:      G3 G4 c          apply(G1 .. G4), then apply(c)     G4 does not continue
//
// The frames of a read are views of the reader's buffer, so what is kept is copied.
#pragma once

#include <sepal/base/result.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "storage/journal/journal_reader.hpp"

namespace sepal::storage {

// Confined.
class FrameGroups {
 public:
  // Takes what JournalReader::next() returned. Calls `apply` for frames in their order, with those of one
  // segment each time. It does so for all frames of a group, or for none: frames of a group that has not
  // ended are copied, and wait for the next call.
  template <class Apply>  // Result<void>(std::span<const JournalFrame>)
  Result<void> take(std::span<const JournalFrame> frames, const Apply& apply) {
    if (begun()) {
      const std::size_t count = end_of_group(frames);
      keep(frames.first(count));
      // All frames were of the group, and it goes on in the next read.
      if (kept_.back().continues) return {};
      if (auto applied = apply_kept(apply); !applied) return applied;
      kept_.clear();
      bodies_.clear();
      frames = frames.subspan(count);
    }
    // The frames at the end that continue are a group without an end so far: its last frame has no such flag.
    std::size_t whole = frames.size();
    while (whole > 0 && frames[whole - 1].continues) --whole;
    keep(frames.subspan(whole));
    return whole == 0 ? Result<void>() : apply(frames.first(whole));
  }

  [[nodiscard]] bool begun() const { return !kept_.empty(); }
  // The first frame of a group that has not ended. Valid while begun().
  [[nodiscard]] const JournalFrame& first() const { return kept_.front(); }

 private:
  // The number of frames up to the end of the group that has begun.
  static std::size_t end_of_group(std::span<const JournalFrame> frames) {
    std::size_t count = 0;
    while (count < frames.size() && frames[count].continues) ++count;
    return count < frames.size() ? count + 1 : count;
  }
  template <class Apply>
  // Calls once for each segment, so that an error names the right file.
  Result<void> apply_kept(const Apply& apply) const {
    for (std::span<const JournalFrame> rest = kept_; !rest.empty();) {
      const auto other = std::ranges::find_if(
          rest, [&](const JournalFrame& frame) { return frame.segment != rest.front().segment; });
      const auto count = static_cast<std::size_t>(other - rest.begin());
      if (auto applied = apply(rest.first(count)); !applied) return applied;
      rest = rest.subspan(count);
    }
    return {};
  }
  void keep(std::span<const JournalFrame> frames) {
    for (const JournalFrame& frame : frames) {
      // The bytes stay where they are when the vector of the bodies grows.
      bodies_.emplace_back(frame.body.begin(), frame.body.end());
      kept_.push_back(frame);
      kept_.back().body = bodies_.back();
    }
  }

  std::vector<JournalFrame> kept_;
  std::vector<std::vector<std::byte>> bodies_;
};

}  // namespace sepal::storage
