#include "chunk_loader.hpp"

#include <sepal/base/assert.hpp>
#include <sepal/base/hash.hpp>

#include <algorithm>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "damage.hpp"

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
    if (!told) failed_ = true;
  };
  load_chunks(tell);
  for (std::thread& other : others) other.join();
  if (told) tell();
  if (!told) return told.error();
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
  if (checksums.stored == checksums.computed) fill_(begin, contents);
  bytes_done_ += stored.size();
  return {};
}

void ChunkLoader::fail_at(std::size_t chunk, const Error& error) {
  failed_ = true;
  const MutexLock lock(mutex_);
  if (!failure_ || chunk < failure_->chunk) failure_ = Failure{.chunk = chunk, .error = error};
}

}  // namespace sepal::storage
