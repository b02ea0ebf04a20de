// Fingerprints on disk, for items that cannot be read twice. The file has no name, so it disappears with the
// process, however the process ends.
#pragma once

#include <sepal/base/descriptor.hpp>
#include <sepal/base/hash.hpp>
#include <sepal/base/mutex.hpp>
#include <sepal/base/result.hpp>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

namespace sepal::tools {

// Synchronised. Blocks. Errors: disk_full, io, with a sentence.
class FingerprintSpool {
 public:
  // Makes the file in `folder`; "" is the current folder.
  static Result<std::unique_ptr<FingerprintSpool>> create(const std::filesystem::path& folder);
  FingerprintSpool(const FingerprintSpool&) = delete;
  FingerprintSpool& operator=(const FingerprintSpool&) = delete;

  // Every batch has a number of its own, from 0 on without gaps. Batches may come in any order.
  Result<void> write(std::uint32_t batch, std::span<const Fingerprint> items);
  // Called after the last write. Gives a batch as it was written.
  Result<void> read(std::uint32_t batch, std::vector<Fingerprint>& items) const;

  [[nodiscard]] std::uint32_t batch_count() const;
  [[nodiscard]] std::uint64_t item_count() const;

 private:
  struct Place {
    std::uint64_t first_item = 0;
    std::uint64_t item_count = 0;
  };
  FingerprintSpool(Descriptor descriptor, std::filesystem::path folder);
  [[nodiscard]] Error failed(const char* what, int error_number) const;

  const Descriptor descriptor_;
  const std::filesystem::path folder_;
  mutable Mutex mutex_;  // Not held during input or output.
  std::vector<Place> batches_ SEPAL_GUARDED_BY(mutex_);
  std::uint64_t item_count_ SEPAL_GUARDED_BY(mutex_) = 0;
};

}  // namespace sepal::tools
