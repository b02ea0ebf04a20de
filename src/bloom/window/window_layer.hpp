// A layer of a filter that forgets: its blocks, and how many items each generation has in it.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/bloom/window/plan.hpp>
#include <sepal/value/bitmap.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "bloom/window/lane_kernel.hpp"
#include "bloom/window/lanes.hpp"

namespace sepal::bloom {

using value::Bitmap;
using value::Paging;

// Members are shared, but for those that say otherwise.
class WindowLayer {
 public:
  // Errors: out_of_memory.
  static Result<std::shared_ptr<WindowLayer>> create(const LanePlan& plan, std::uint64_t number,
                                                     std::uint32_t lanes, Paging paging);
  // The memory that create() takes.
  static std::uint64_t footprint(const LanePlan& plan, std::uint32_t lanes);

  [[nodiscard]] const LanePlan& plan() const { return plan_; }
  // Layers of a filter are numbered as they come, from 0.
  [[nodiscard]] std::uint64_t number() const { return number_; }
  [[nodiscard]] std::uint64_t byte_count() const { return plan_.byte_count(blocks_.lanes); }

  [[nodiscard]] const LaneBlocks& blocks() const { return blocks_; }
  // Looks for at most sought_together_max items (lane_kernel.hpp). When all three are done, `items` has those
  // that a live lane has; the last one returns a bit for each item that one of the lanes `sufficient` has.
  void begin_find(std::span<const std::uint64_t> hashes, Zones zones, SoughtItems& items) const {
    lane_kernel().begin(blocks_, hashes, zones, items);
  }
  void narrow_find(const LiveStamps& live, SoughtItems& items) const {
    lane_kernel().narrow(blocks_, live, items);
  }
  [[nodiscard]] std::uint64_t end_find(std::uint32_t sufficient, SoughtItems& items) const {
    return lane_kernel().end(blocks_, sufficient, items);
  }
  // The live lanes that have one item.
  [[nodiscard]] std::uint32_t lanes_with(std::uint64_t hash, const LiveStamps& live) const {
    return with_shape(blocks_, [&](const auto& shape) {
      const LaneItem item(blocks_, hash);
      std::uint32_t lanes = item.live_lanes(blocks_, shape, live);
      for (std::uint32_t zone = 0; zone < blocks_.zones && lanes != 0; ++zone)
        lanes = item.lanes_in(shape, zone, blocks_.words + item.line(blocks_, zone), lanes);
      return lanes;
    });
  }
  // Sets the item's bits in the lane of this generation. With the lock of its block.
  void set(std::uint64_t hash, const LiveStamps& live) {
    with_shape(blocks_, [&](const auto& shape) { LaneItem(blocks_, hash).set(blocks_, shape, live); });
  }

  // The places of a lane that its items have taken, or adds that run now have claimed.
  [[nodiscard]] std::uint64_t taken(std::uint32_t lane) const {
    return taken_[lane].load(std::memory_order_relaxed);
  }
  // Takes places of a lane; false: they are not there.
  [[nodiscard]] bool claim(std::uint32_t lane, std::uint64_t count);
  // The same, there or not.
  void take(std::uint32_t lane, std::uint64_t count) {
    taken_[lane].fetch_add(count, std::memory_order_relaxed);
  }
  void give_back(std::uint32_t lane, std::uint64_t count);
  void set_taken(std::uint32_t lane, std::uint64_t count) {
    taken_[lane].store(count, std::memory_order_relaxed);
  }

  // --- its bits as bytes, as KindRow::copy_body and fill_body ---------------------------------------------

  void copy(std::uint64_t offset, std::span<std::byte> to) const;
  void fill(std::uint64_t offset, std::span<const std::byte> from);

  // Empties the lanes that are not live: those that were copied when they had a later generation. No other
  // thread knows the layer.
  void keep_live(const LiveStamps& live) const;

  // --- small pages (value::SmallPages) --------------------------------------------------------------------

  [[nodiscard]] bool fresh() const { return fresh_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t piece_count() const { return bitmap_.piece_count(); }
  // A layer that was dropped is to be let go of: it says that its pages are in use, and moves none.
  [[nodiscard]] bool in_use(std::uint64_t piece) const { return dropped() || bitmap_.in_use(piece); }
  void move_to_huge_page(std::uint64_t piece) const;
  // The filter has dropped it.
  void set_dropped() { dropped_.store(true, std::memory_order_relaxed); }

 private:
  [[nodiscard]] bool dropped() const { return dropped_.load(std::memory_order_relaxed); }
  WindowLayer(const LanePlan& plan, std::uint64_t number, std::uint32_t lanes, Bitmap bitmap, bool fresh)
      : plan_(plan),
        number_(number),
        bitmap_(std::move(bitmap)),
        blocks_(plan, lanes, bitmap_.words()),
        fresh_(fresh) {}
  const LanePlan plan_;
  const std::uint64_t number_;
  const Bitmap bitmap_;
  const LaneBlocks blocks_;
  mutable std::atomic<bool> fresh_;  // has pages that are to be moved
  std::atomic<bool> dropped_{false};
  std::array<std::atomic<std::uint64_t>, lanes_max> taken_{};
};

}  // namespace sepal::bloom
