// Filters that clients send in pieces (BF.LOADCHUNK), until they are whole. Nobody sees an upload under its
// key before; whoever sends the last piece gets the filter to put it there. Its memory counts as used; it
// goes when no piece has come for as long as the timeout.
//
// Two kinds of pieces, told apart by the header that begins the upload: Sepal's own (filter/dump.hpp), which
// say themselves where they belong and carry a checksum; RedisBloom's, of which only the length can be
// checked.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/mutex.hpp>
#include <sepal/base/result.hpp>
#include <sepal/filter/filter.hpp>
#include <sepal/keyspace/keyspace.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace sepal::keyspace {

struct UploadLimits {
  std::uint32_t count_max = 64;
  std::chrono::seconds timeout{300};
};

// A piece as a client sends it. RedisBloom's iterator stands behind the bytes that it comes with: 1 for the
// header, else 1 and the offset in the bitmaps behind them.
struct UploadPiece {
  std::int64_t iterator = 0;
  std::span<const std::byte> bytes;
};

// Synchronised; what members need of the gate is said at each.
class Uploads {
 public:
  explicit Uploads(Keyspace& keyspace);
  ~Uploads();
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;

  enum class Outcome : std::uint8_t {
    taken,
    whole,          // that was the last piece: take() it
    begins_anew,    // the first piece of another dump: begin() with it
    known_already,  // a piece of an upload that has got under its key
    not_adopted,    // a piece of one that was taken, and has not, or never will
    not_found,      // nothing of this key is being uploaded
    bad_data,
    no_such_offset,  // RedisBloom's: beyond the bitmaps
    too_big,         // RedisBloom's: beyond the layer that it begins in
  };

  // Exclusive. Begins an upload, in place of one that the key may have; it has no bits yet. `header` is one,
  // or a first piece of data. Errors: damaged, in_use (there are too many), key_too_long, memory_limit,
  // too_large, out_of_memory; the one that there was goes on.
  Result<void> begin(DatabaseKey key, std::span<const std::byte> header, const UploadLimits& limits,
                     WallTime now);
  // Shared. Several clients may send pieces of one upload.
  Outcome load(DatabaseKey key, const UploadPiece& piece, WallTime now);
  // Exclusive. The filter of an upload that is whole, which nobody else has; null when there is none.
  FilterPtr take(DatabaseKey key, WallTime now);
  // Any thread. What was taken has got under its key. Pieces of it are known from here on, for as long as an
  // upload is kept that nobody goes on with. `filter` has lived since it was taken.
  void adopted(DatabaseKey key, const filter::Filter& filter);

  // Exclusive: drops all uploads, as their keys are dropped that are whole.
  void flush(std::uint32_t database);
  void flush_all();
  // Exclusive: drops what nobody has sent anything for.
  void expire(WallTime now);
  // Of the next upload that may be abandoned then.
  [[nodiscard]] Deadline earliest_deadline() const;

  struct Summary {
    std::uint64_t count = 0;
    std::uint64_t byte_count = 0;       // what they take
    std::uint64_t bytes_loaded = 0;     // of their bitmaps
    std::uint64_t completed_count = 0;  // since the start
    std::uint64_t abandoned_count = 0;
  };
  [[nodiscard]] Summary summary() const;

 private:
  class Upload;
  using Place = std::pair<std::uint32_t, std::string>;

  // Inside the gate it stays as long as the caller does.
  [[nodiscard]] Upload* find(DatabaseKey key) const;
  void discard(Upload& upload);
  template <class Gone>
  std::uint64_t drop_if(const Gone& gone);

  Keyspace& keyspace_;
  mutable Mutex mutex_;  // Lock order: after the gate, before that of an upload.
  std::map<Place, std::unique_ptr<Upload>> uploads_ SEPAL_GUARDED_BY(mutex_);
  std::uint64_t completed_count_ SEPAL_GUARDED_BY(mutex_) = 0;
  std::uint64_t abandoned_count_ SEPAL_GUARDED_BY(mutex_) = 0;
};

}  // namespace sepal::keyspace
