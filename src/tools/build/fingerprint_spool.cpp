#include "tools/build/fingerprint_spool.hpp"

#include <sepal/base/assert.hpp>

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <string>
#include <unistd.h>
#include <utility>

#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

constexpr mode_t spool_mode = 0600;

// A nameless file disappears even if the program is killed. On a file system without them (EOPNOTSUPP), or a
// kernel that does not know O_TMPFILE (EISDIR), the file gets a name and loses it at once.
Descriptor open_nameless(const std::string& folder) {
  Descriptor descriptor(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, spool_mode));
  if (descriptor.is_open() || (errno != EOPNOTSUPP && errno != EISDIR)) return descriptor;
  std::string name = folder + "/sepal-build-XXXXXX";
  Descriptor named(::mkostemp(name.data(), O_CLOEXEC));
  if (named.is_open()) ::unlink(name.c_str());
  return named;
}

}  // namespace

Result<std::unique_ptr<FingerprintSpool>> FingerprintSpool::create(const std::filesystem::path& folder) {
  Descriptor descriptor = open_nameless(folder.empty() ? "." : folder.string());
  if (!descriptor.is_open())
    return fail(Errc::io, "cannot create a temporary file in " + (folder.empty() ? "." : folder.string()) +
                              ": " + reason_text(errno));
  return std::unique_ptr<FingerprintSpool>(new FingerprintSpool(std::move(descriptor), folder));
}

FingerprintSpool::FingerprintSpool(Descriptor descriptor, std::filesystem::path folder)
    : descriptor_(std::move(descriptor)), folder_(std::move(folder)) {}

Result<void> FingerprintSpool::write(std::uint32_t batch, std::span<const Fingerprint> items) {
  std::uint64_t offset = 0;
  {
    // Only the place is taken under the lock. The threads then write side by side, each to its own bytes.
    const MutexLock lock(mutex_);
    if (batches_.size() <= batch) batches_.resize(batch + std::size_t{1});
    SEPAL_ASSERT(batches_[batch].item_count == 0, "a batch is written twice");
    batches_[batch] = {.first_item = item_count_, .item_count = items.size()};
    offset = item_count_ * sizeof(Fingerprint);
    item_count_ += items.size();
  }
  auto bytes = std::as_bytes(items);
  while (!bytes.empty()) {
    // pwrite() may write only a part, for example when the disk fills up. The next call then tells why.
    const ssize_t count =
        ::pwrite(descriptor_.number(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return failed("write", count < 0 ? errno : EIO);
    offset += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Result<void> FingerprintSpool::read(std::uint32_t batch, std::vector<Fingerprint>& items) const {
  Place place;
  {
    const MutexLock lock(mutex_);
    SEPAL_ASSERT(batch < batches_.size(), "a batch is read that was not written");
    place = batches_[batch];
  }
  items.resize(place.item_count);
  std::uint64_t offset = place.first_item * sizeof(Fingerprint);
  auto bytes = std::as_writable_bytes(std::span(items));
  while (!bytes.empty()) {
    const ssize_t count =
        ::pread(descriptor_.number(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return failed("read", count < 0 ? errno : EIO);
    offset += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

std::uint32_t FingerprintSpool::batch_count() const {
  const MutexLock lock(mutex_);
  return static_cast<std::uint32_t>(batches_.size());
}

std::uint64_t FingerprintSpool::item_count() const {
  const MutexLock lock(mutex_);
  return item_count_;
}

Error FingerprintSpool::failed(const char* what, int error_number) const {
  const bool full = error_number == ENOSPC || error_number == EDQUOT;
  return fail(full ? Errc::disk_full : Errc::io,
              std::string("cannot ") + what + " the temporary file in " +
                  (folder_.empty() ? "." : folder_.string()) + ": " + reason_text(error_number) +
                  (full ? "; it needs 16 bytes an item, and none when --capacity is given" : ""));
}

}  // namespace sepal::tools
