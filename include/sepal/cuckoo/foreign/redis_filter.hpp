// A cuckoo filter of RedisBloom as a value.
//
// What a change leaves depends on the changes before it: which slots are free, and what is kicked. So changes
// are made with the gate closed, and the journal has them in their order. A replay needs the hashes of the
// items, and no more: what was refused has changed nothing, and is not recorded.
#pragma once

#include <sepal/base/mutex.hpp>
#include <sepal/base/result.hpp>
#include <sepal/cuckoo/foreign/redis_table.hpp>
#include <sepal/value/kept_bytes.hpp>
#include <sepal/value/kind_row.hpp>
#include <sepal/value/value.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

namespace sepal::cuckoo {

class RedisFilter;
class RedisStill;
using RedisFilterPtr = boost::intrusive_ptr<RedisFilter>;

// The copies of a filter that are under way while it changes. Synchronised.
class RedisStills final : public RedisTable::Observer {
 public:
  void about_to_change(std::uint32_t layer, std::uint64_t offset, std::uint64_t byte_count) override {
    if (count_.load(std::memory_order_acquire) != 0) keep_for_all(layer, offset, byte_count);
  }
  void add(RedisStill& still);
  void remove(RedisStill& still);
  // No other lock is taken inside it.
  [[nodiscard]] Mutex& mutex() { return mutex_; }

 private:
  void keep_for_all(std::uint32_t layer, std::uint64_t offset, std::uint64_t byte_count);

  std::atomic<std::uint32_t> count_{0};
  Mutex mutex_;
  std::vector<RedisStill*> stills_ SEPAL_GUARDED_BY(mutex_);
};

// The header and the slots of an instant. Few slots are copied at once. Of more, it keeps the pages that
// change before they were copied, at most one copy of the filter. Both are in the account (kept_bytes.hpp).
class RedisStill final : public value::Still {
 public:
  // So many slots are copied at once.
  static constexpr std::uint64_t whole_bytes_max = std::uint64_t{64} << 10;

  // With the gate closed.
  RedisStill(const RedisTable& table, std::shared_ptr<RedisStills> stills);
  ~RedisStill() override;
  RedisStill(const RedisStill&) = delete;
  RedisStill& operator=(const RedisStill&) = delete;

  [[nodiscard]] const RedisHeader& header() const { return header_; }
  // The slots of all layers, one behind the other, and zeros up to a multiple of 8.
  [[nodiscard]] std::uint64_t byte_count() const { return byte_count_; }
  // Copies bytes of them: by one thread, from the first byte to the last. Outside the gate as well.
  void copy(std::uint64_t offset, std::span<std::byte> to);

  // Of RedisStills, with its lock.
  void keep(std::uint32_t layer, std::uint64_t offset, std::uint64_t byte_count);

 private:
  static constexpr std::uint64_t page_bytes = 4096;
  using Page = std::array<std::byte, page_bytes>;

  void read_live(std::uint64_t offset, std::span<std::byte> to) const;

  const RedisHeader header_;
  const std::shared_ptr<RedisStills> stills_;
  std::vector<RedisSlotsPtr> layers_;
  std::vector<std::uint64_t> begins_;  // of the layers, and the end of the last
  std::uint64_t byte_count_ = 0;
  std::vector<std::byte> whole_;  // of few slots
  // With the lock of stills_. A page is kept until it was copied.
  std::uint64_t pages_copied_ = 0;
  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> kept_;
  value::KeptBytes counted_;  // of whole_ or kept_
};

// Members are *shared* or *exclusive*, as those of bloom::Filter.
class RedisFilter final : public value::Value {
 public:
  static constexpr value::Kind own_kind = value::Kind::redis_cuckoo;

  // Errors: out_of_memory, and that of `table`.
  static Result<RedisFilterPtr> of(Result<RedisTable> table);

  // --- shared ---------------------------------------------------------------------------------------------

  [[nodiscard]] const RedisTable& table() const { return table_; }
  [[nodiscard]] const RedisHeader& header() const { return table_.header(); }
  // As the header says, but not more than the filter has slots: what a client has claimed is in no sum.
  [[nodiscard]] std::uint64_t item_count() const;
  [[nodiscard]] std::uint64_t byte_count() const;
  [[nodiscard]] std::uint64_t change_count() const { return changes_; }
  [[nodiscard]] std::uint64_t identity() const { return identity_; }

  // --- exclusive ------------------------------------------------------------------------------------------

  // The filter, for one change or several.
  [[nodiscard]] RedisTable& changing() {
    ++changes_;
    return table_;
  }
  // Before other threads know it: the filter, whose slots an image fills.
  [[nodiscard]] RedisTable& filling() { return table_; }
  [[nodiscard]] std::unique_ptr<RedisStill> freeze() const {
    return std::make_unique<RedisStill>(table_, stills_);
  }

 private:
  explicit RedisFilter(RedisTable table);

  const std::uint64_t identity_;
  std::uint64_t changes_ = 0;
  RedisTable table_;
  const std::shared_ptr<RedisStills> stills_;
};

}  // namespace sepal::cuckoo
