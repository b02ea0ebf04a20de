#include <sepal/base/assert.hpp>
#include <sepal/cuckoo/foreign/redis_filter.hpp>
#include <sepal/value/heap.hpp>

#include <algorithm>
#include <new>
#include <utility>

namespace sepal::cuckoo {

// --- the bytes of an instant ------------------------------------------------------------------------------

void RedisStills::add(RedisStill& still) {
  const MutexLock lock(mutex_);
  stills_.push_back(&still);
  count_.fetch_add(1, std::memory_order_release);
}

void RedisStills::remove(RedisStill& still) {
  const MutexLock lock(mutex_);
  std::erase(stills_, &still);
  count_.fetch_sub(1, std::memory_order_release);
}

void RedisStills::keep_for_all(std::uint32_t layer, std::uint64_t offset, std::uint64_t byte_count) {
  const MutexLock lock(mutex_);
  for (RedisStill* const still : stills_) still->keep(layer, offset, byte_count);
}

RedisStill::RedisStill(const RedisTable& table, std::shared_ptr<RedisStills> stills)
    : header_(table.header()), stills_(std::move(stills)) {
  constexpr std::uint64_t word_bytes = 8;
  layers_.reserve(header_.layer_count);
  begins_.reserve(header_.layer_count + std::size_t{1});
  std::uint64_t end = 0;
  begins_.push_back(end);
  for (std::uint32_t layer = 0; layer < header_.layer_count; ++layer) {
    layers_.push_back(table.memory(layer));
    begins_.push_back(end += header_.layer_slots(layer));
  }
  byte_count_ = (end + word_bytes - 1) / word_bytes * word_bytes;
  if (end > whole_bytes_max) {
    stills_->add(*this);
    return;
  }
  whole_.resize(static_cast<std::size_t>(byte_count_));
  counted_.set(byte_count_);
  read_live(0, whole_);
  layers_ = {};
  begins_ = {};
}

RedisStill::~RedisStill() {
  if (!layers_.empty()) stills_->remove(*this);
}

void RedisStill::read_live(std::uint64_t offset, std::span<std::byte> to) const {
  auto next = std::ranges::upper_bound(begins_, offset);
  for (; !to.empty() && next != begins_.end(); ++next) {
    const auto layer = static_cast<std::size_t>(next - begins_.begin()) - 1;
    const std::uint64_t within = offset - begins_[layer];
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(to.size(), *next - offset));
    std::ranges::copy(std::as_bytes(std::span(layers_[layer]->bytes() + within, count)), to.begin());
    offset += count;
    to = to.subspan(count);
  }
  std::ranges::fill(to, std::byte{0});
}

void RedisStill::keep(std::uint32_t layer, std::uint64_t offset, std::uint64_t byte_count) {
  // Another layer may have come in the place of one that was dropped. Then the old one is kept in vain.
  if (layer >= layers_.size() || byte_count == 0) return;
  const std::uint64_t begin = begins_[layer] + offset;
  const std::uint64_t end = std::min(begin + byte_count, begins_[layer + std::size_t{1}]);
  if (begin >= end) return;
  for (std::uint64_t page = std::max(begin / page_bytes, pages_copied_); page <= (end - 1) / page_bytes;
       ++page) {
    std::unique_ptr<Page>& kept = kept_[page];
    if (kept != nullptr) continue;
    kept = std::make_unique<Page>();
    read_live(page * page_bytes, *kept);
  }
  counted_.set(kept_.size() * page_bytes);
}

void RedisStill::copy(std::uint64_t offset, std::span<std::byte> to) {
  if (layers_.empty()) {
    std::ranges::copy(std::span(whole_).subspan(static_cast<std::size_t>(offset), to.size()), to.begin());
    return;
  }
  while (!to.empty()) {
    const std::uint64_t page = offset / page_bytes;
    const std::uint64_t within = offset % page_bytes;
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(to.size(), page_bytes - within));
    const MutexLock lock(stills_->mutex());
    SEPAL_ASSERT(page >= pages_copied_, "the slots of a filter are copied from the first to the last");
    const auto kept = kept_.find(page);
    if (kept == kept_.end()) {
      read_live(offset, to.first(count));
    } else {
      std::ranges::copy(std::span(*kept->second).subspan(static_cast<std::size_t>(within), count),
                        to.begin());
    }
    if (within + count == page_bytes) {
      pages_copied_ = page + 1;
      if (kept != kept_.end()) kept_.erase(kept);
      counted_.set(kept_.size() * page_bytes);
    }
    offset += count;
    to = to.subspan(count);
  }
}

// --- the filter -------------------------------------------------------------------------------------------

RedisFilter::RedisFilter(RedisTable table)
    : Value(own_kind),
      identity_(value::new_identity()),
      table_(std::move(table)),
      stills_(std::make_shared<RedisStills>()) {
  table_.observe(stills_.get());
}

Result<RedisFilterPtr> RedisFilter::of(Result<RedisTable> table) {
  if (!table) return table.error();
  auto* const made = new (std::nothrow) RedisFilter(std::move(*table));
  if (made == nullptr) return fail(Errc::out_of_memory);
  return RedisFilterPtr(made);
}

std::uint64_t RedisFilter::item_count() const {
  return std::min(header().item_count, header().slot_count());
}

std::uint64_t RedisFilter::byte_count() const {
  return value::heap_footprint(sizeof(RedisFilter)) + value::heap_footprint(sizeof(RedisStills)) +
         table_.allocated_bytes();
}

}  // namespace sepal::cuckoo
