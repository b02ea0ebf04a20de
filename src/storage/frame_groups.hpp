// Puts the groups of a journal's frames together: a group may come in several reads, and from several
// segments.
#pragma once

#include <sepal/base/result.hpp>

#include <cstddef>
#include <span>
#include <vector>

#include "journal_reader.hpp"

namespace sepal::storage {

// Confined.
class FrameGroups {
 public:
  // The first frame of a group that has not ended.
  struct Begun {
    JournalFrame frame;  // without its body
    std::size_t segment = 0;
  };

  // Takes what JournalReader::next() returned; `segment` is its segment_index(). Calls `apply` for frames in
  // their order, a group always whole. Frames of a group that has not ended are copied, and wait for the next
  // call.
  template <class Apply>  // Result<void>(std::span<const JournalFrame>)
  Result<void> take(std::span<const JournalFrame> frames, std::size_t segment, const Apply& apply) {
    if (begun()) {
      const std::size_t count = end_of_group(frames);
      keep(frames.first(count));
      if (kept_.back().continues) return {};
      if (auto applied = apply(std::span<const JournalFrame>(kept_)); !applied) return applied;
      kept_.clear();
      bodies_.clear();
      frames = frames.subspan(count);
    }
    std::size_t whole = frames.size();
    while (whole > 0 && frames[whole - 1].continues) --whole;
    if (whole < frames.size()) {
      begun_ = {.frame = frames[whole], .segment = segment};
      begun_.frame.body = {};
      keep(frames.subspan(whole));
    }
    return whole == 0 ? Result<void>() : apply(frames.first(whole));
  }

  [[nodiscard]] bool begun() const { return !kept_.empty(); }
  // Valid while begun().
  [[nodiscard]] const Begun& first() const { return begun_; }

 private:
  // The number of frames up to the end of the group that has begun.
  static std::size_t end_of_group(std::span<const JournalFrame> frames) {
    std::size_t count = 0;
    while (count < frames.size() && frames[count].continues) ++count;
    return count < frames.size() ? count + 1 : count;
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
  Begun begun_;
};

}  // namespace sepal::storage
