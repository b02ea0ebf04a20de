#include <sepal/base/assert.hpp>
#include <sepal/bloom/filter/dump.hpp>
#include <sepal/bloom/foreign/redisbloom.hpp>
#include <sepal/writers/uploads.hpp>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <vector>

#include "writers/covered_ranges.hpp"

namespace sepal::writers {
// Not local to this file, because the class below has a member of this type and is known outside.
struct UploadHeader {
  bloom::ImageHeader image;
  std::optional<std::uint64_t> identity;  // for a dump of Sepal's
};

namespace {

using bloom::DumpPiece;
using bloom::ImageHeader;

// So many uploads whose filter was taken are kept, because their pieces may come again.
constexpr std::size_t taken_count_max = 1024;

bool same(const ImageHeader& a, const ImageHeader& b) {
  return bloom::encode(a) == bloom::encode(b);
}

Result<UploadHeader> read_header(std::span<const std::byte> bytes, std::uint32_t layers_max) {
  const auto piece = bloom::decode_dump_piece(bytes, layers_max);
  if (piece) {
    if (!piece->image) return fail(Errc::damaged, "a piece of a dump comes before its header");
    return UploadHeader{.image = *piece->image, .identity = piece->identity};
  }
  if (piece.error().code == Errc::layer_limit) return piece.error();
  const auto image = bloom::decode_redisbloom_header(bytes, layers_max);
  if (!image) return image.error();
  return UploadHeader{.image = *image, .identity = std::nullopt};
}

}  // namespace

// One upload, from its header until its pieces are forgotten:
//
//     filling ---- load() of the last byte ----> whole ---- take() ----> taken ---- adopted() ----> adopted
//
// Until it is taken, the upload has the filter, and the keyspace holds its bytes. After that, only the header
// and two marks are left. By them a piece that a client sends twice is answered: as loaded, but only once the
// filter is under its key. The adoption may still fail before that, and then the client must begin anew.
//
// Its mutex is locked while a piece is copied: only clients that send pieces of the same upload meet there.
class Uploads::Upload {
 public:
  Upload(UploadHeader header, bloom::FilterPtr filter, std::chrono::seconds timeout)
      : header_(std::move(header)),
        total_bytes_(header_.image.bitmap_bytes()),
        held_bytes_(filter->byte_count()),
        timeout_(timeout),
        filter_(std::move(filter)) {
    SEPAL_ASSERT(total_bytes_ > 0 && held_bytes_ >= total_bytes_,
                 "an upload holds less memory than its bits take");
  }

  Outcome load(const UploadPiece& piece, std::uint32_t layers_max, WallTime now) {
    // Decoded before the lock, so that clients of one upload verify their checksums side by side.
    const auto own = bloom::decode_dump_piece(piece.bytes, layers_max);
    const MutexLock lock(mutex_);
    keep(now);
    const Outcome outcome = header_.identity && own ? load_own(*own) : load_foreign(piece);
    if (outcome != Outcome::taken) return outcome;
    if (filter_ == nullptr) return adopted_ ? Outcome::known_already : Outcome::not_adopted;
    return covered_.byte_count() == total_bytes_ ? Outcome::whole : Outcome::taken;
  }

  bloom::FilterPtr take(WallTime now) {
    const MutexLock lock(mutex_);
    if (filter_ == nullptr || covered_.byte_count() < total_bytes_) return nullptr;
    keep(now);
    // Many gaps take memory, and the marks of a taken upload are kept for long.
    covered_ = {};
    // To tell by it whether the filter that was adopted later is this one: by then the key may have a
    // second upload, which was taken as well.
    taken_ = filter_.get();
    return std::exchange(filter_, nullptr);
  }
  // The address is unique while the filter lives.
  void adopted(const value::Value& filter) {
    const MutexLock lock(mutex_);
    if (taken_ == &filter) adopted_ = true;
  }
  // Null once the filter was taken.
  bloom::FilterPtr give_up() {
    const MutexLock lock(mutex_);
    return std::exchange(filter_, nullptr);
  }

  void keep(WallTime now) { until_.store(keyspace::deadline_at(now + timeout_), std::memory_order_relaxed); }
  [[nodiscard]] Deadline until() const { return until_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint64_t held_bytes() const { return held_bytes_; }
  [[nodiscard]] bool taken() const {
    const MutexLock lock(mutex_);
    return filter_ == nullptr;
  }
  [[nodiscard]] std::uint64_t bytes_loaded() const {
    const MutexLock lock(mutex_);
    return covered_.byte_count();
  }

 private:
  Outcome load_own(const DumpPiece& piece) SEPAL_REQUIRES(mutex_) {
    // The identity names the dumped filter and the process. Only a piece with a header can begin another
    // dump.
    const bool other = piece.identity != *header_.identity;
    if (other && !piece.image) return Outcome::bad_data;
    // A piece that is a whole filter has an instant of its own, which may differ from the header's.
    const bool whole = piece.image && piece.data.size() == piece.total_bytes;
    // Only before the filter is taken. Afterwards the filter may be on its way to its key, and a new upload
    // begins with a header of its own.
    if (filter_ != nullptr && (other || (whole && !same(*piece.image, header_.image))))
      return Outcome::begins_anew;
    if (other) return Outcome::bad_data;
    // The filter has grown since the header was made.
    if (piece.offset >= total_bytes_) return Outcome::taken;
    return fill(piece.offset, piece.data.first(static_cast<std::size_t>(
                                  std::min<std::uint64_t>(piece.data.size(), total_bytes_ - piece.offset))));
  }

  Outcome load_foreign(const UploadPiece& piece) SEPAL_REQUIRES(mutex_) {
    // All of this comes from a client, so each difference is checked before it is formed.
    if (piece.iterator < 1) return Outcome::bad_data;
    const auto end = static_cast<std::uint64_t>(piece.iterator) - 1;
    if (end < piece.bytes.size()) return Outcome::bad_data;
    const std::uint64_t offset = end - piece.bytes.size();
    if (offset >= total_bytes_) return Outcome::no_such_offset;
    if (header_.identity) return Outcome::bad_data;
    std::uint64_t layer_end = 0;
    // The end of the layer in which the piece begins. RedisBloom refuses a piece that goes on into the next
    // layer, and so does Sepal.
    for (const auto& layer : header_.image.layers)
      if (layer_end <= offset) layer_end += layer.plan.byte_count();
    return end > layer_end ? Outcome::too_big : fill(offset, piece.bytes);
  }

  Outcome fill(std::uint64_t offset, std::span<const std::byte> bytes) SEPAL_REQUIRES(mutex_) {
    SEPAL_ASSERT(offset <= total_bytes_ && bytes.size() <= total_bytes_ - offset,
                 "a piece reaches beyond the filter");
    // A filter that is whole may be looked at already, so its bits must not change.
    if (filter_ == nullptr || covered_.byte_count() == total_bytes_) return Outcome::taken;
    // Noted before the bytes are there. The mutex keeps other pieces, and take(), out until they are.
    if (!covered_.add(offset, offset + bytes.size())) return Outcome::bad_data;
    SEPAL_ASSERT(covered_.byte_count() <= total_bytes_, "more bytes of a filter have come than it has");
    // Offsets run through the bitmaps of all layers, one behind the other. A piece may reach into several.
    for (std::uint32_t i = 0; !bytes.empty(); ++i) {
      const std::uint64_t layer_bytes = header_.image.layers[i].plan.byte_count();
      if (offset >= layer_bytes) {
        offset -= layer_bytes;
        continue;
      }
      const auto count =
          static_cast<std::size_t>(std::min<std::uint64_t>(layer_bytes - offset, bytes.size()));
      filter_->fill_bits(i, offset, bytes.first(count));
      bytes = bytes.subspan(count);
      offset = 0;
    }
    return Outcome::taken;
  }

  const UploadHeader header_;
  const std::uint64_t total_bytes_;
  const std::uint64_t held_bytes_;
  const std::chrono::seconds timeout_;
  std::atomic<Deadline> until_{keyspace::no_deadline};            // Relaxed: nothing is ordered by it.
  mutable Mutex mutex_ SEPAL_ACQUIRED_AFTER(&Uploads::mutex_);    // Lock order: last.
  bloom::FilterPtr filter_ SEPAL_GUARDED_BY(mutex_);              // null once it is taken
  const value::Value* taken_ SEPAL_GUARDED_BY(mutex_) = nullptr;  // only compared: it may be gone
  bool adopted_ SEPAL_GUARDED_BY(mutex_) = false;
  CoveredRanges covered_ SEPAL_GUARDED_BY(mutex_);
};

Uploads::Uploads(Keyspace& keyspace) : keyspace_(keyspace) {}
Uploads::~Uploads() = default;

Uploads::Upload* Uploads::find(DatabaseKey key) const {
  const MutexLock lock(mutex_);
  const auto found = uploads_.find(Place(key.database, key.key));
  return found == uploads_.end() ? nullptr : found->second.get();
}

// The housekeeper gives the memory back, so no request waits for that.
void Uploads::discard(Upload& upload) {
  SEPAL_ASSERT(!upload.taken(), "the memory of an upload is given back twice");
  keyspace_.release(upload.held_bytes());
  keyspace_.dispose(upload.give_up());
}

Result<void> Uploads::begin(DatabaseKey key, std::span<const std::byte> header, const UploadLimits& limits,
                            WallTime now) {
  if (key.key.size() > keyspace::key_bytes_max) return fail(Errc::key_too_long);
  auto read = read_header(header, keyspace_.options().layers_max);
  if (!read) return read.error();
  // First, so that abandoned uploads count towards no limit, and so that `present` below points to no
  // upload that this drops.
  expire(now);
  Upload* const present = find(key);
  const bool replaces = present != nullptr && !present->taken();
  if (summary().count - (replaces ? 1 : 0) >= limits.count_max)
    return fail(Errc::in_use, "as many uploads as there may be are under way");
  // All that can fail comes first, so after an error the key's earlier upload goes on. For a moment both
  // take memory.
  auto filter = bloom::Filter::restore(read->image.options, read->image.layers, keyspace_.value_limits(),
                                       bloom::FilledBy::requests);
  if (!filter) return filter.error();
  const std::uint64_t held_bytes = (*filter)->byte_count();
  if (const auto held = keyspace_.hold(held_bytes); !held) return held.error();
  // Before insert_or_assign(), which destroys the earlier upload inside the lock: its filter must be gone
  // by then.
  if (replaces) discard(*present);
  auto upload = std::make_unique<Upload>(std::move(*read), std::move(*filter), limits.timeout);
  upload->keep(now);
  // Pieces only postpone the deadline. So the thread `expiry` may wake too early, but never too late.
  keyspace_.wake_at(upload->until());
  const MutexLock lock(mutex_);
  uploads_.insert_or_assign(Place(key.database, key.key), std::move(upload));
  return {};
}

Uploads::Outcome Uploads::load(DatabaseKey key, const UploadPiece& piece, WallTime now) {
  // Without the lock of Uploads: pieces of different uploads are copied side by side. The upload stays,
  // because only a thread that has closed the gate erases one.
  Upload* const upload = find(key);
  return upload == nullptr ? Outcome::not_found : upload->load(piece, keyspace_.options().layers_max, now);
}

bloom::FilterPtr Uploads::take(DatabaseKey key, WallTime now) {
  Upload* const upload = find(key);
  bloom::FilterPtr filter = upload == nullptr ? nullptr : upload->take(now);
  if (filter == nullptr) return nullptr;
  // The caller puts the filter under its key at once, or the thread `adopter` holds its bytes anew: they
  // must not count twice.
  keyspace_.release(upload->held_bytes());
  const MutexLock lock(mutex_);
  // There are too many marks: then this upload leaves none. Its pieces, if they come again, belong to no
  // upload.
  if (uploads_.size() > taken_count_max) uploads_.erase(Place(key.database, key.key));
  return filter;
}

void Uploads::adopted(DatabaseKey key, const value::Value& filter) {
  const MutexLock lock(mutex_);
  ++completed_count_;
  const auto found = uploads_.find(Place(key.database, key.key));
  if (found != uploads_.end()) found->second->adopted(filter);
}

// Drops the uploads for which gone(database, upload) holds. Returns how many of them were not taken. Their
// memory is given back without the lock.
template <class Gone>
std::uint64_t Uploads::drop_if(const Gone& gone) {
  std::vector<std::unique_ptr<Upload>> dropped;
  {
    const MutexLock lock(mutex_);
    for (auto at = uploads_.begin(); at != uploads_.end();) {
      const bool drop = gone(at->first.first, *at->second);
      if (drop && !at->second->taken()) dropped.push_back(std::move(at->second));
      at = drop ? uploads_.erase(at) : std::next(at);
    }
  }
  // Outside of the lock: the housekeeper has a lock of its own, and two at a time are not allowed
  // (docs/architecture.md, lock order).
  for (const auto& upload : dropped) discard(*upload);
  return dropped.size();
}

void Uploads::flush(std::uint32_t database) {
  static_cast<void>(drop_if([&](std::uint32_t of, const Upload&) { return of == database; }));
}

void Uploads::flush_all() {
  static_cast<void>(drop_if([](std::uint32_t, const Upload&) { return true; }));
}

void Uploads::expire(WallTime now) {
  const std::uint64_t abandoned =
      drop_if([&](std::uint32_t, const Upload& upload) { return keyspace::is_past(upload.until(), now); });
  const MutexLock lock(mutex_);
  abandoned_count_ += abandoned;
}

Deadline Uploads::earliest_deadline() const {
  const MutexLock lock(mutex_);
  Deadline earliest = keyspace::no_deadline;
  for (const auto& [place, upload] : uploads_)
    if (earliest == keyspace::no_deadline || upload->until() < earliest) earliest = upload->until();
  return earliest;
}

Uploads::Summary Uploads::summary() const {
  const MutexLock lock(mutex_);
  Summary summary{.completed_count = completed_count_, .abandoned_count = abandoned_count_};
  for (const auto& [place, upload] : uploads_) {
    if (upload->taken()) continue;
    ++summary.count;
    summary.byte_count += upload->held_bytes();
    summary.bytes_loaded += upload->bytes_loaded();
  }
  return summary;
}

}  // namespace sepal::writers
