// Filters that clients send in pieces (BF.LOADCHUNK), until they are whole. Before that, no command sees an
// upload under its key. The worker that gets the last piece takes the filter and has it put there. The memory
// of an upload counts as used. An upload is dropped when no piece has come for as long as the timeout.
//
// There are two kinds of pieces. The header that begins the upload tells which. Sepal's own pieces
// (filter/dump.hpp) name their place and carry a checksum. RedisBloom's pieces do not: only their length can
// be checked.
#pragma once

#include <sepal/base/clock.hpp>
#include <sepal/base/mutex.hpp>
#include <sepal/base/result.hpp>
#include <sepal/bloom/filter/filter.hpp>
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

namespace sepal::writers {

using keyspace::DatabaseKey;
using keyspace::Deadline;
using keyspace::Keyspace;

struct UploadLimits {
  std::uint32_t count_max = 64;
  std::chrono::seconds timeout{300};
};

// A piece as a client sends it. `iterator`, as RedisBloom counts: 1 for the header; for a piece of data, 1
// plus the offset at which the piece ends.
struct UploadPiece {
  std::int64_t iterator = 0;
  std::span<const std::byte> bytes;
};

// Synchronised; each member says what it needs of the gate.
class Uploads {
 public:
  explicit Uploads(Keyspace& keyspace);
  ~Uploads();
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;

  enum class Outcome : std::uint8_t {
    taken,
    whole,          // that was the last piece: call take()
    begins_anew,    // the first piece of another dump: call begin() with it
    known_already,  // a piece of an upload whose filter is under its key
    not_adopted,    // a piece of an upload that was taken, and whose filter is not under its key (yet)
    not_found,      // no upload of this key is there
    bad_data,
    no_such_offset,  // RedisBloom's: beyond the bitmaps
    too_big,         // RedisBloom's: beyond the layer that it begins in
  };

  // Exclusive. Begins an upload without any bits, in place of one that the key may have. `header` is a
  // header, or a first piece of data. Errors: damaged, in_use (there are too many uploads), key_too_long,
  // memory_limit, too_large, out_of_memory, mapping_limit; after an error the key's earlier upload goes on.
  Result<void> begin(DatabaseKey key, std::span<const std::byte> header, const UploadLimits& limits,
                     WallTime now);
  // Shared. Several clients may send pieces of one upload.
  Outcome load(DatabaseKey key, const UploadPiece& piece, WallTime now);
  // Exclusive. The filter of an upload that is whole; the caller alone has it. Null when there is none.
  bloom::FilterPtr take(DatabaseKey key, WallTime now);
  // Any thread. The filter that was taken is under its key. From here on its pieces are known_already, for as
  // long as an upload without new pieces is kept. `filter` has lived since it was taken.
  void adopted(DatabaseKey key, const value::Value& filter);

  // Exclusive: drops unfinished uploads, as a flush drops finished keys.
  void flush(std::uint32_t database);
  void flush_all();
  // Exclusive: drops uploads for which no piece has come in time.
  void expire(WallTime now);
  // When the next upload may be due to be dropped.
  [[nodiscard]] Deadline earliest_deadline() const;

  struct Summary {
    std::uint64_t count = 0;
    std::uint64_t byte_count = 0;       // memory that they take
    std::uint64_t bytes_loaded = 0;     // bytes of their bitmaps that have come
    std::uint64_t completed_count = 0;  // since the start
    std::uint64_t abandoned_count = 0;
  };
  [[nodiscard]] Summary summary() const;

 private:
  class Upload;
  using Place = std::pair<std::uint32_t, std::string>;

  // Inside the gate the upload stays as long as the caller does.
  [[nodiscard]] Upload* find(DatabaseKey key) const;
  void discard(Upload& upload);
  template <class Gone>
  std::uint64_t drop_if(const Gone& gone);

  Keyspace& keyspace_;
  mutable Mutex mutex_;  // Lock order: after the gate, before an upload's mutex.
  std::map<Place, std::unique_ptr<Upload>> uploads_ SEPAL_GUARDED_BY(mutex_);
  std::uint64_t completed_count_ SEPAL_GUARDED_BY(mutex_) = 0;
  std::uint64_t abandoned_count_ SEPAL_GUARDED_BY(mutex_) = 0;
};

}  // namespace sepal::writers
