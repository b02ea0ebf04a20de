// A cuckoo filter of RedisBloom: its bytes, its hash and its algorithm, so that it goes on as it would have
// there, and can be dumped back byte for byte.
//
//     h = MurmurHash64A(item, 0)               fingerprint = h % 255 + 1; 0 is an empty slot
//     first bucket = h % buckets               other = (first ^ fingerprint * 0x5bd1e995) % buckets
//
// An add takes the first empty slot of the two buckets, in the newest layer that has one. If no layer has
// one, it kicks fingerprints of the newest layer from bucket to bucket, as often as kicks_max says. If that
// finds no empty slot either, it takes all kicks back, and the filter grows by a layer.
//
// A removal takes the first slot with the fingerprint, newest layer first. That is safe: a newer layer has a
// multiple of an older one's buckets. So items that share both buckets in a newer layer share them in all
// older ones, and a removal that begins at the newest layer leaves a slot for each item that is left.
#pragma once

#include <sepal/base/result.hpp>
#include <sepal/cuckoo/foreign/redis_header.hpp>
#include <sepal/value/value.hpp>

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/smart_ptr/intrusive_ref_counter.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string_view>

namespace sepal::cuckoo {

class RedisSlots;
using RedisSlotsPtr = boost::intrusive_ptr<RedisSlots>;

// The memory of a layer. A reader that holds a pointer may read on after the table has dropped the layer; the
// slots do not change any more then. Any thread may make and drop pointers.
class RedisSlots final : public boost::intrusive_ref_counter<RedisSlots, boost::thread_safe_counter> {
 public:
  // All empty; null when there is no memory.
  static RedisSlotsPtr make(std::uint64_t byte_count);
  // The memory that make() takes.
  static std::uint64_t footprint(std::uint64_t byte_count);
  static void operator delete(RedisSlots* slots, std::destroying_delete_t);

  [[nodiscard]] std::uint8_t* bytes() { return reinterpret_cast<std::uint8_t*>(this + 1); }
  [[nodiscard]] const std::uint8_t* bytes() const { return reinterpret_cast<const std::uint8_t*>(this + 1); }

 private:
  explicit RedisSlots(std::uint64_t mapped_bytes) : mapped_bytes_(mapped_bytes) {}

  const std::uint64_t mapped_bytes_;  // with this object; 0: both are from the heap
};

// Members that are const may be called by many threads at once, the others by one thread while no other calls
// any. Opens, starts and locks nothing.
class RedisTable {
 public:
  // Hears what is about to change, so that a reader can keep the bytes of an instant. It does not hear of a
  // layer that comes or goes: the reader keeps header() and memory().
  class Observer {
   public:
    // Slots [offset, offset + byte_count) of a layer still have their old bytes.
    virtual void about_to_change(std::uint32_t layer, std::uint64_t offset, std::uint64_t byte_count) = 0;

   protected:
    ~Observer() = default;
  };

  enum class Added : std::uint8_t {
    added,
    exists,         // add_new(): the item is there, or seems to be
    full,           // there is no empty slot, and the filter does not grow: "Filter is full"
    layer_limit,    // it has limits.layers_max layers: "Maximum expansions reached"
    too_large,      // with one layer more it would take more than limits.bytes_max
    out_of_memory,  // the system refused the memory
  };

  // A filter with this header and empty slots. Errors, before anything is allocated: out_of_range (no filter
  // can be like that), layer_limit (it has more layers than `limits` allow: each look-up asks all of them),
  // too_large. Else: out_of_memory.
  static Result<RedisTable> make(const RedisHeader& header, const value::Limits& limits);
  // The memory that make() takes, of a sound header.
  [[nodiscard]] static std::uint64_t memory_bytes(const RedisHeader& header);

  // Counts and shape.
  [[nodiscard]] const RedisHeader& header() const { return header_; }
  // It had no slot for an item and could not grow. Since then, nothing was removed, and it has not grown. It
  // may refuse before all slots are taken. Not in its bytes: a filter that was loaded does not know.
  [[nodiscard]] bool refused_last() const { return refused_last_; }
  // Why it could not grow another layer within these limits; `added`: it could, if the system has the memory.
  [[nodiscard]] Added growth_refusal(const value::Limits& limits) const;
  // All memory behind this object.
  [[nodiscard]] std::uint64_t allocated_bytes() const;
  // All that a filter knows of an item.
  [[nodiscard]] static std::uint64_t hash_of(std::string_view item);
  [[nodiscard]] bool contains(std::string_view item) const;
  // The slots that a removal of the item could take. Where both buckets are the same one, each counts twice.
  [[nodiscard]] std::uint64_t count(std::string_view item) const;
  // Valid until a member that is not const is called.
  [[nodiscard]] std::span<const std::byte> slots(std::uint32_t layer) const;
  [[nodiscard]] RedisSlotsPtr memory(std::uint32_t layer) const;

  // Adds one more copy. Whatever is not `added` has changed nothing.
  //
  // RedisBloom asks for layers_max once for each command, before it looks at the first item: a caller that
  // wants its answers compares header().layer_count first. Then RedisBloom adds as many layers as the items
  // of the command need; here the limit holds for each layer.
  [[nodiscard]] Added add(std::uint64_t hash, const value::Limits& limits);
  [[nodiscard]] Added add(std::string_view item, const value::Limits& limits) {
    return add(hash_of(item), limits);
  }
  // The same for an item that is not there yet.
  [[nodiscard]] Added add_new(std::uint64_t hash, const value::Limits& limits);
  [[nodiscard]] Added add_new(std::string_view item, const value::Limits& limits) {
    return add_new(hash_of(item), limits);
  }
  // Removes one copy, if there is one. Once the removals since the last compaction exceed a tenth of the
  // items, and there are several layers, it compacts them, newest first, up to the first one that does not
  // become empty. That looks at all slots of these layers, and takes about 20 ns for each.
  bool remove(std::uint64_t hash);
  bool remove(std::string_view item) { return remove(hash_of(item)); }
  // Moves slots into the oldest layers that have room. Drops the newest layers that become empty.
  void compact();
  // Puts bytes to a place within a layer: that of a chunk (redis_place_of()), or of a payload.
  void write(const RedisPiece& place, std::span<const std::byte> bytes);
  // The same with an offset among the slots of all layers. Bytes behind the last slot are left out. While
  // nobody hears, several threads may write different slots at once.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);

  // Null, as at first: nobody hears. The observer must live until it is replaced.
  void observe(Observer* observer) { observer_ = observer; }

 private:
  // An item in the eyes of all layers: hashes before the division by the number of buckets.
  struct Hashes {
    std::uint64_t first;
    std::uint64_t other;
    std::uint8_t fingerprint;
  };
  struct Layer {
    RedisSlotsPtr slots;
    std::uint64_t bucket_mask = 0;
  };
  enum class UpTo : std::uint8_t { first_that_stays, last };

  RedisTable() = default;

  static Hashes hashes_of(std::uint64_t hash);
  static std::uint64_t other_of(std::uint64_t hash, std::uint8_t fingerprint);

  [[nodiscard]] std::uint64_t begin_of_bucket(const Layer& layer, std::uint64_t hash) const;
  [[nodiscard]] std::optional<std::uint64_t> find_in_bucket(const Layer& layer, std::uint64_t hash,
                                                            std::uint8_t wanted) const;
  [[nodiscard]] std::optional<std::uint64_t> find(const Layer& layer, const Hashes& item,
                                                  std::uint8_t wanted) const;
  [[nodiscard]] bool contains(const Hashes& item) const;

  void set(std::uint32_t layer, std::uint64_t offset, std::uint8_t slot);
  [[nodiscard]] Added add(const Hashes& item, const value::Limits& limits);
  [[nodiscard]] bool put(std::uint32_t layer, const Hashes& item);
  [[nodiscard]] bool kick(const Hashes& item);
  [[nodiscard]] Added grow(const value::Limits& limits);
  // The places in the list of layers that one layer more needs.
  [[nodiscard]] std::uint32_t next_layers_room() const;
  [[nodiscard]] bool push_layer();
  void compact(UpTo up_to);
  [[nodiscard]] bool empty_into_older(std::uint32_t layer);
  [[nodiscard]] Hashes item_at(std::uint32_t layer, std::uint64_t offset) const;
  void prefetch_older(std::uint32_t layer, const Hashes& item) const;
  [[nodiscard]] bool move_to_older(std::uint32_t layer, std::uint64_t offset);

  RedisHeader header_;
  std::unique_ptr<Layer[]> layers_;  // oldest first; header_.layer_count of them are in use
  std::uint32_t layers_room_ = 0;
  std::uint64_t slots_footprint_ = 0;
  bool refused_last_ = false;
  Observer* observer_ = nullptr;
};

}  // namespace sepal::cuckoo
