// Each thread takes the number of the next chunk from an atomic counter, reads that chunk into a buffer of
// its own, hashes it, and copies it into the filter. Chunks are independent: each has its place in the file
// and in the bitmaps, and its entry in checksums_. So no lock is needed, except for an error.
//
// The calling thread works as well, and alone tells the meter, which belongs to it. What the other threads
// have done since it told last is in bytes_done_.
#include "storage/generation/chunk_loader.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/hash.hpp>

#include <algorithm>
#include <memory>
#include <system_error>
#include <utility>

#include "storage/disk/damage.hpp"

namespace sepal::storage {
namespace {

constexpr std::uint64_t stored_chunk_bytes = format::chunk_bytes + format::checksum_bytes;

}  // namespace

ChunkLoader::ChunkLoader(File& file, const Place& place, Fill fill)
    : file_(file),
      place_(place),
      fill_(std::move(fill)),
      checksums_(
          static_cast<std::size_t>((place.bitmap_bytes + format::chunk_bytes - 1) / format::chunk_bytes)) {}

Result<std::vector<ChunkChecksums>> ChunkLoader::run(std::size_t thread_count, ProgressMeter& meter) {
  SEPAL_ASSERT(thread_count >= 1, "no thread loads the chunks");
  SEPAL_ASSERT(next_.load() == 0 && fill_, "a loader is used once, and fills its chunks in");
  std::vector<std::thread> others = start_others(thread_count - 1);
  std::uint64_t bytes_told = 0;
  Result<void> told;
  const auto tell = [&] {
    const std::uint64_t done = bytes_done_.load();
    told = meter.add(done - std::exchange(bytes_told, done));
    // The load was given up. The other threads end after their current chunk.
    if (!told) failed_ = true;
  };
  load_chunks(tell);
  // Before anything is returned: the threads use this object, and the filter that `fill_` writes to.
  for (std::thread& other : others) other.join();
  if (told) tell();
  if (!told) return told.error();
  // All threads have ended. The lock is only for the analysis.
  const MutexLock lock(mutex_);
  if (failure_) return failure_->error;
  SEPAL_ASSERT(bytes_done_.load() == format::stored_bitmap_bytes(place_.bitmap_bytes),
               "a chunk was left out, or was loaded twice");
  return std::move(checksums_);
}

// Starts fewer threads where the system refuses more.
std::vector<std::thread> ChunkLoader::start_others(std::size_t count) {
  std::vector<std::thread> others;
  try {
    while (others.size() < count) others.emplace_back([this] { load_chunks([] {}); });
  } catch (const std::system_error&) {
    // The calling thread loads what no helper takes.
  }
  return others;
}

void ChunkLoader::load_chunks(const std::function<void()>& after_each) {
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(stored_chunk_bytes);
  while (!failed_) {
    const std::size_t chunk = next_.fetch_add(1);
    if (chunk >= checksums_.size()) return;
    if (const auto done = load_chunk(chunk, {buffer.get(), stored_chunk_bytes}); !done)
      return fail_at(chunk, done.error());
    after_each();
  }
}

Result<void> ChunkLoader::load_chunk(std::size_t chunk, std::span<std::byte> buffer) {
  const std::uint64_t begin = chunk * std::uint64_t{format::chunk_bytes};
  const auto count =
      static_cast<std::size_t>(std::min<std::uint64_t>(format::chunk_bytes, place_.bitmap_bytes - begin));
  const std::uint64_t offset = place_.offset + chunk * stored_chunk_bytes;
  const auto stored = buffer.first(count + format::checksum_bytes);
  const auto read = file_.read_at(offset, stored);
  if (!read) return read.error();
  if (*read != stored.size()) return damaged_at(offset, "it became shorter while it was read");
  const auto contents = stored.first(count);
  ChunkChecksums& checksums = checksums_[chunk];
  checksums.stored = load_little_endian<std::uint64_t>(stored.data() + count);
  checksums.computed = Checksum::of(contents);
  // A wrong checksum is no error here. The caller compares all of them in the order of the file, and names
  // the first one.
  if (checksums.stored == checksums.computed) fill_(begin, contents);
  bytes_done_ += stored.size();
  return {};
}

void ChunkLoader::fail_at(std::size_t chunk, const Error& error) {
  failed_ = true;
  const MutexLock lock(mutex_);
  // Several threads may fail. The error that comes first in the file is told, and not the one that came first
  // in time.
  if (!failure_ || chunk < failure_->chunk) failure_ = Failure{.chunk = chunk, .error = error};
}

}  // namespace sepal::storage
