// The folder of BF.IMPORT and BF.EXPORT. Clients name the filter files in it by plain names. So no request
// reaches a file outside of the folder, or one behind a symbolic link.
#pragma once

#include <sepal/command/run/adoptions.hpp>
#include <sepal/storage/disk/disk.hpp>

#include <string>
#include <utility>

namespace sepal::app {

// Refuses a folder that is not there, and one in which an export by a plain name could destroy the data: the
// data directory, any folder in it, and the folder that contains it. The data directory need not exist.
// Follows links. Blocks. Errors: io, with a sentence.
Result<void> check_import_folder(const storage::Path& folder, const storage::Path& data);

// Removes the files of exports that a crash cut short. Another sepald may use the same folder, so a file that
// was written to within the last hour stays. A file that cannot be removed stays, and is logged. Blocks.
void remove_import_remains(const storage::Path& folder);

// Confined to the thread `adopter`.
class ImportFolder final : public command::Transfers {
 public:
  // `folder` is empty if there is none.
  ImportFolder(storage::Disk& disk, storage::Path folder) : disk_(disk), folder_(std::move(folder)) {}

  [[nodiscard]] bool enabled() const override { return !folder_.empty(); }
  Result<value::ValuePtr> read(const std::string& name, value::Kind kind,
                               const command::JobContext& job) override;
  Result<void> write(const command::OutgoingFile& file, const command::JobContext& job) override;

 private:
  storage::Disk& disk_;
  const storage::Path folder_;
};

}  // namespace sepal::app
