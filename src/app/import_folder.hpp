// The folder of BF.IMPORT and BF.EXPORT: filter files by plain names, so that no request reaches anything
// outside of it, and none through a symbolic link.
#pragma once

#include <sepal/command/adoptions.hpp>
#include <sepal/storage/disk.hpp>

#include <string>
#include <utility>

namespace sepal::app {

// Refuses a folder where an export by a plain name could destroy the data: the data directory, which is
// there, any folder in it, and the one that it stands in. Follows links. Blocks. Errors: io, with a sentence.
Result<void> check_import_folder(const storage::Path& folder, const storage::Path& data);

// Confined to the thread of adoptions.
class ImportFolder final : public command::Transfers {
 public:
  // `folder` is empty where there is none.
  ImportFolder(storage::Disk& disk, storage::Path folder) : disk_(disk), folder_(std::move(folder)) {}

  [[nodiscard]] bool enabled() const override { return !folder_.empty(); }
  Result<keyspace::FilterPtr> read(const std::string& name, const command::Making& making) override;
  Result<void> write(const command::OutgoingFile& file, const command::Making& making) override;

 private:
  storage::Disk& disk_;
  const storage::Path folder_;
};

}  // namespace sepal::app
