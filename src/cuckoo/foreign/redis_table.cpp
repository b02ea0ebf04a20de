// To the letter of RedisBloom where two ways would leave other bytes: the order in which slots are tried, the
// victim of each kick, when and what is compacted.
//
// RedisBloom cuts the offset of a bucket to 32 bits where it looks for a slot. Only a layer above 4 GiB has
// larger offsets. Its items are then where the cut offset says, so such offsets are cut here as well. For its
// kicks and compactions RedisBloom does not cut them, and loses the items that these move. Here kicks cut as
// well, and a compaction leaves such a layer as it is.
#include <sepal/base/assert.hpp>
#include <sepal/base/hash.hpp>
#include <sepal/cuckoo/foreign/redis_table.hpp>
#include <sepal/value/bitmap.hpp>
#include <sepal/value/heap.hpp>

#include <algorithm>
#include <limits>
#include <new>
#include <string>

namespace sepal::cuckoo {
namespace {

constexpr std::uint8_t empty_slot = 0;
constexpr std::uint64_t cut_slots_min = std::uint64_t{1} << 32;

constexpr std::uint64_t whole_words(std::uint64_t bytes) {
  constexpr std::uint64_t word_bytes = sizeof(std::uint64_t);
  return (bytes + word_bytes - 1) / word_bytes * word_bytes;
}

}  // namespace

RedisSlotsPtr RedisSlots::make(std::uint64_t byte_count) {
  const std::uint64_t bytes = sizeof(RedisSlots) + byte_count;
  if (const std::uint64_t whole = whole_words(bytes); value::Bitmap::is_mapped(whole)) {
    auto mapped = value::Bitmap::allocate(whole, value::Paging::small);
    return mapped ? new (mapped->release()) RedisSlots(whole) : nullptr;
  }
  void* const allocated = value::heap_allocate(bytes);
  return allocated == nullptr ? nullptr : new (allocated) RedisSlots(0);
}

std::uint64_t RedisSlots::footprint(std::uint64_t byte_count) {
  const std::uint64_t bytes = sizeof(RedisSlots) + byte_count;
  const std::uint64_t whole = whole_words(bytes);
  return value::Bitmap::is_mapped(whole) ? value::Bitmap::footprint(whole) : value::heap_footprint(bytes);
}

void RedisSlots::operator delete(RedisSlots* slots, std::destroying_delete_t) {
  const std::uint64_t mapped_bytes = slots->mapped_bytes_;
  slots->~RedisSlots();
  if (mapped_bytes == 0) return value::heap_release(slots);
  (void)value::Bitmap::taken(reinterpret_cast<std::uint64_t*>(slots), mapped_bytes);
}

Result<RedisTable> RedisTable::make(const RedisHeader& header, const value::Limits& limits) {
  if (auto sound = check_redis_header(header); !sound) return sound.error();
  if (header.layer_count > limits.layers_max)
    return fail(Errc::layer_limit,
                "the cuckoo filter has more than " + std::to_string(limits.layers_max) + " layers");
  if (memory_bytes(header) > limits.bytes_max)
    return fail(Errc::too_large, "the cuckoo filter is larger than allowed");
  RedisTable table;
  table.header_ = header;
  table.header_.layer_count = 0;
  table.layers_.reset(new (std::nothrow) Layer[header.layer_count]);
  table.layers_room_ = header.layer_count;
  for (std::uint32_t i = 0; i < header.layer_count; ++i) {
    if (table.layers_ == nullptr || !table.push_layer())
      return fail(Errc::out_of_memory, "there is no memory for the cuckoo filter");
  }
  return table;
}

std::uint64_t RedisTable::memory_bytes(const RedisHeader& header) {
  std::uint64_t bytes = value::heap_footprint(header.layer_count * sizeof(Layer));
  for (std::uint32_t i = 0; i < header.layer_count; ++i)
    bytes += RedisSlots::footprint(header.layer_slots(i));
  return bytes;
}

std::uint64_t RedisTable::allocated_bytes() const {
  return value::heap_footprint(layers_room_ * sizeof(Layer)) + slots_footprint_;
}

// --- looking ----------------------------------------------------------------------------------------------

std::uint64_t RedisTable::hash_of(std::string_view item) {
  constexpr std::uint64_t seed = 0;
  return murmur_hash_64a(item, seed);
}

RedisTable::Hashes RedisTable::hashes_of(std::uint64_t hash) {
  constexpr std::uint64_t fingerprints = std::numeric_limits<std::uint8_t>::max();
  const auto fingerprint = static_cast<std::uint8_t>(hash % fingerprints + 1);
  return {.first = hash, .other = other_of(hash, fingerprint), .fingerprint = fingerprint};
}

// Of a hash, or of a bucket's number: the lower bits of the result depend on the lower bits alone.
std::uint64_t RedisTable::other_of(std::uint64_t hash, std::uint8_t fingerprint) {
  constexpr std::uint64_t multiplier = 0x5bd1e995;
  return hash ^ (fingerprint * multiplier);
}

std::uint64_t RedisTable::begin_of_bucket(const Layer& layer, std::uint64_t hash) const {
  return static_cast<std::uint32_t>((hash & layer.bucket_mask) * header_.bucket_slots);
}

std::optional<std::uint64_t> RedisTable::find_in_bucket(const Layer& layer, std::uint64_t hash,
                                                        std::uint8_t wanted) const {
  const std::uint64_t begin = begin_of_bucket(layer, hash);
  const std::uint8_t* const bucket = layer.slots->bytes() + begin;
  for (std::uint32_t i = 0; i < header_.bucket_slots; ++i)
    if (bucket[i] == wanted) return begin + i;
  return std::nullopt;
}

std::optional<std::uint64_t> RedisTable::find(const Layer& layer, const Hashes& item,
                                              std::uint8_t wanted) const {
  const auto found = find_in_bucket(layer, item.first, wanted);
  return found ? found : find_in_bucket(layer, item.other, wanted);
}

bool RedisTable::contains(const Hashes& item) const {
  return std::any_of(&layers_[0], &layers_[header_.layer_count],
                     [&](const Layer& layer) { return find(layer, item, item.fingerprint).has_value(); });
}

bool RedisTable::contains(std::string_view item) const {
  return contains(hashes_of(hash_of(item)));
}

std::uint64_t RedisTable::count(std::string_view item) const {
  const Hashes hashes = hashes_of(hash_of(item));
  std::uint64_t sum = 0;
  for (std::uint32_t i = 0; i < header_.layer_count; ++i) {
    for (const std::uint64_t hash : {hashes.first, hashes.other}) {
      const std::uint8_t* const bucket = layers_[i].slots->bytes() + begin_of_bucket(layers_[i], hash);
      sum +=
          static_cast<std::uint64_t>(std::count(bucket, bucket + header_.bucket_slots, hashes.fingerprint));
    }
  }
  return sum;
}

std::span<const std::byte> RedisTable::slots(std::uint32_t layer) const {
  SEPAL_ASSERT(layer < header_.layer_count, "a layer of a cuckoo filter is one that it has");
  return {reinterpret_cast<const std::byte*>(layers_[layer].slots->bytes()), header_.layer_slots(layer)};
}

RedisSlotsPtr RedisTable::memory(std::uint32_t layer) const {
  SEPAL_ASSERT(layer < header_.layer_count, "a layer of a cuckoo filter is one that it has");
  return layers_[layer].slots;
}

// --- changing ---------------------------------------------------------------------------------------------

// The only place where adds, removals and compactions change a slot.
void RedisTable::set(std::uint32_t layer, std::uint64_t offset, std::uint8_t slot) {
  if (observer_ != nullptr) observer_->about_to_change(layer, offset, 1);
  layers_[layer].slots->bytes()[offset] = slot;
}

RedisTable::Added RedisTable::add(std::uint64_t hash, const value::Limits& limits) {
  return add(hashes_of(hash), limits);
}

RedisTable::Added RedisTable::add_new(std::uint64_t hash, const value::Limits& limits) {
  const Hashes hashes = hashes_of(hash);
  return contains(hashes) ? Added::exists : add(hashes, limits);
}

RedisTable::Added RedisTable::add(const Hashes& item, const value::Limits& limits) {
  bool done = false;
  for (std::uint32_t layer = header_.layer_count; layer > 0 && !done; --layer) done = put(layer - 1, item);
  if (!done && !kick(item)) {
    const Added grown = grow(limits);
    refused_last_ = grown != Added::added;
    if (grown != Added::added) return grown;
    const bool put_to_new = put(header_.layer_count - 1, item);
    SEPAL_ASSERT(put_to_new, "a new layer of a cuckoo filter has room");
  }
  ++header_.item_count;
  return Added::added;
}

bool RedisTable::put(std::uint32_t layer, const Hashes& item) {
  const auto empty = find(layers_[layer], item, empty_slot);
  if (empty) set(layer, *empty, item.fingerprint);
  return empty.has_value();
}

bool RedisTable::kick(const Hashes& item) {
  const std::uint32_t newest = header_.layer_count - 1;
  const Layer& layer = layers_[newest];
  const std::uint32_t bucket_slots = header_.bucket_slots;
  std::uint8_t fingerprint = item.fingerprint;
  std::uint64_t bucket = item.first & layer.bucket_mask;
  std::uint32_t victim = 0;
  const auto swap_with_victim = [&] {
    const std::uint64_t offset = begin_of_bucket(layer, bucket) + victim;
    const std::uint8_t kicked = layer.slots->bytes()[offset];
    set(newest, offset, fingerprint);
    fingerprint = kicked;
  };
  const auto go_to_other = [&] { bucket = other_of(bucket, fingerprint) & layer.bucket_mask; };
  for (std::uint32_t i = 0; i < header_.kicks_max; ++i) {
    swap_with_victim();
    go_to_other();
    if (const auto empty = find_in_bucket(layer, bucket, empty_slot)) {
      set(newest, *empty, fingerprint);
      return true;
    }
    victim = (victim + 1) % bucket_slots;
  }
  // All of it backwards, so that each fingerprint is in its slot again.
  for (std::uint32_t i = 0; i < header_.kicks_max; ++i) {
    victim = (victim + bucket_slots - 1) % bucket_slots;
    go_to_other();
    swap_with_victim();
  }
  return false;
}

std::uint32_t RedisTable::next_layers_room() const {
  return header_.layer_count < layers_room_ ? layers_room_ : layers_room_ + layers_room_ / 2 + 1;
}

RedisTable::Added RedisTable::growth_refusal(const value::Limits& limits) const {
  if (header_.expansion == 0) return Added::full;
  if (header_.layer_count >= limits.layers_max) return Added::layer_limit;
  RedisHeader grown = header_;
  ++grown.layer_count;
  if (!check_redis_header(grown)) return Added::too_large;
  const std::uint64_t bytes = value::heap_footprint(next_layers_room() * sizeof(Layer)) + slots_footprint_ +
                              RedisSlots::footprint(grown.layer_slots(header_.layer_count));
  return bytes > limits.bytes_max ? Added::too_large : Added::added;
}

RedisTable::Added RedisTable::grow(const value::Limits& limits) {
  if (const Added refusal = growth_refusal(limits); refusal != Added::added) return refusal;
  if (const std::uint32_t room = next_layers_room(); room != layers_room_) {
    std::unique_ptr<Layer[]> layers(new (std::nothrow) Layer[room]);
    if (layers == nullptr) return Added::out_of_memory;
    std::move(&layers_[0], &layers_[header_.layer_count], layers.get());
    layers_ = std::move(layers);
    layers_room_ = room;
  }
  return push_layer() ? Added::added : Added::out_of_memory;
}

bool RedisTable::push_layer() {
  const std::uint32_t layer = header_.layer_count;
  const std::uint64_t byte_count = header_.layer_slots(layer);
  RedisSlotsPtr slots = RedisSlots::make(byte_count);
  if (slots == nullptr) return false;
  layers_[layer] = {.slots = std::move(slots), .bucket_mask = header_.layer_buckets(layer) - 1};
  slots_footprint_ += RedisSlots::footprint(byte_count);
  ++header_.layer_count;
  return true;
}

bool RedisTable::remove(std::uint64_t hash) {
  constexpr double deleted_share_max = 0.10;
  const Hashes hashes = hashes_of(hash);
  for (std::uint32_t layer = header_.layer_count; layer > 0; --layer) {
    const auto found = find(layers_[layer - 1], hashes, hashes.fingerprint);
    if (!found) continue;
    set(layer - 1, *found, empty_slot);
    --header_.item_count;
    ++header_.delete_count;
    refused_last_ = false;
    if (header_.layer_count > 1 && static_cast<double>(header_.delete_count) >
                                       static_cast<double>(header_.item_count) * deleted_share_max)
      compact(UpTo::first_that_stays);
    return true;
  }
  return false;
}

void RedisTable::compact() {
  compact(UpTo::last);
}

void RedisTable::compact(UpTo up_to) {
  for (std::uint32_t layer = header_.layer_count - 1; layer > 0; --layer) {
    const bool emptied = empty_into_older(layer);
    if (!emptied && up_to == UpTo::first_that_stays) break;
    if (!emptied || layer != header_.layer_count - 1) continue;
    slots_footprint_ -= RedisSlots::footprint(header_.layer_slots(layer));
    layers_[layer].slots.reset();
    --header_.layer_count;
  }
  header_.delete_count = 0;
}

// Returns whether no item is left in it. While some slots are moved, the buckets that they may move to are on
// their way.
bool RedisTable::empty_into_older(std::uint32_t layer) {
  constexpr std::uint64_t slots_together = 32;
  const std::uint64_t slot_count = header_.layer_slots(layer);
  if (slot_count > cut_slots_min) return false;
  const std::uint8_t* const slots = layers_[layer].slots->bytes();
  bool emptied = true;
  for (std::uint64_t begin = 0; begin < slot_count; begin += slots_together) {
    const std::uint64_t end = std::min(begin + slots_together, slot_count);
    for (std::uint64_t offset = begin; offset < end; ++offset)
      if (slots[offset] != empty_slot) prefetch_older(layer, item_at(layer, offset));
    for (std::uint64_t offset = begin; offset < end; ++offset)
      if (slots[offset] != empty_slot && !move_to_older(layer, offset)) emptied = false;
  }
  return emptied;
}

// The number of the bucket says what the hash would: an older layer has no more buckets.
RedisTable::Hashes RedisTable::item_at(std::uint32_t layer, std::uint64_t offset) const {
  const std::uint8_t fingerprint = layers_[layer].slots->bytes()[offset];
  const std::uint64_t bucket = offset / header_.bucket_slots;
  return {.first = bucket, .other = other_of(bucket, fingerprint), .fingerprint = fingerprint};
}

// The first bucket follows that of the item before.
void RedisTable::prefetch_older(std::uint32_t layer, const Hashes& item) const {
  for (std::uint32_t older = 0; older < layer; ++older)
    __builtin_prefetch(layers_[older].slots->bytes() + begin_of_bucket(layers_[older], item.other));
  // GCC drops calls of a function that does nothing but prefetch.
  asm volatile("");
}

bool RedisTable::move_to_older(std::uint32_t layer, std::uint64_t offset) {
  const Hashes item = item_at(layer, offset);
  for (std::uint32_t older = 0; older < layer; ++older) {
    if (!put(older, item)) continue;
    set(layer, offset, empty_slot);
    return true;
  }
  return false;
}

void RedisTable::write(const RedisPiece& place, std::span<const std::byte> bytes) {
  SEPAL_ASSERT(place.layer < header_.layer_count && bytes.size() == place.byte_count &&
                   place.offset <= header_.layer_slots(place.layer) &&
                   bytes.size() <= header_.layer_slots(place.layer) - place.offset,
               "slots are written where a layer of a cuckoo filter has them");
  if (observer_ != nullptr) observer_->about_to_change(place.layer, place.offset, bytes.size());
  std::ranges::copy(bytes, reinterpret_cast<std::byte*>(layers_[place.layer].slots->bytes()) + place.offset);
}

void RedisTable::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  std::uint64_t begin = 0;
  for (std::uint32_t layer = 0; layer < header_.layer_count && !bytes.empty(); ++layer) {
    const std::uint64_t end = begin + header_.layer_slots(layer);
    if (offset < end) {
      const auto some =
          bytes.first(static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), end - offset)));
      write({.layer = layer, .offset = offset - begin, .byte_count = some.size()}, some);
      offset += some.size();
      bytes = bytes.subspan(some.size());
    }
    begin = end;
  }
}

}  // namespace sepal::cuckoo
