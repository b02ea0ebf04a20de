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

#include "bloom/window/lanes.hpp"

namespace sepal::bloom {

using value::Bitmap;
using value::Paging;

inline constexpr std::size_t found_together_max = 32;

// The zones whose lines are asked for at once.
enum class Zones : std::uint8_t { first, all };

// Items that begin_find() has asked for.
struct SoughtItems {
  std::size_t count = 0;
  std::array<LaneItem, found_together_max> items;
  std::array<std::uint64_t*, found_together_max> lines;  // of the first zone
};

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
  // For each hash, the live lanes that have the item, a bit for each: `lanes` is as long as `hashes`, which
  // are at most found_together_max. The first call asks for memory that the second one reads: for all of it
  // with Zones::all.
  [[gnu::always_inline]] void begin_find(std::span<const std::uint64_t> hashes, Zones zones,
                                         SoughtItems& items) const {
    items.count = hashes.size();
    const std::uint32_t zones_asked = zones == Zones::all ? blocks_.zones : 1;
    for (std::size_t at = 0; at < hashes.size(); ++at) {
      const LaneItem item(blocks_, hashes[at]);
      items.lines[at] = item.line(blocks_, 0);
      fetch_line(item.stamps(blocks_));
      fetch_line(items.lines[at]);
      for (std::uint32_t zone = 1; zone < zones_asked; ++zone) fetch_line(item.line(blocks_, zone));
      items.items[at] = item;
    }
  }
  void end_find(const SoughtItems& items, const LiveStamps& live, std::span<std::uint32_t> lanes) const;
  [[nodiscard]] std::uint32_t lanes_with(std::uint64_t hash, const LiveStamps& live) const {
    return with_shape(blocks_, [&](const auto& shape) {
      const LaneItem item(blocks_, hash);
      std::uint32_t lanes = item.live_lanes(blocks_, shape, live);
      for (std::uint32_t zone = 0; zone < blocks_.zones && lanes != 0; ++zone)
        lanes = item.lanes_in(shape, zone, item.line(blocks_, zone), lanes);
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
