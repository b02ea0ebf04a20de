#include "tools/build/byte_source.hpp"

#include <sepal/base/descriptor.hpp>

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "tools/build/list_source.hpp"
#include "tools/shell/text.hpp"

namespace sepal::tools {
namespace {

constexpr int pipe_bytes = 1 << 20;

// A file, or anything else with a descriptor.
class FileSource final : public ByteSource {
 public:
  FileSource(int descriptor, bool owned, bool regular)
      : descriptor_(descriptor), owned_(owned ? descriptor : -1), regular_(regular) {
    if (!regular_) return;
    // Standard input may be a file of which another program has read a part. The items begin behind that
    // part.
    const off_t at = ::lseek(descriptor_, 0, SEEK_CUR);
    begin_ = at < 0 ? 0 : static_cast<std::uint64_t>(at);
  }

  // Reads a regular file by offset, so that it can be read again, even through the same descriptor.
  Result<std::size_t> read(std::span<char> into) override {
    for (;;) {
      const ssize_t count =
          regular_ ? ::pread(descriptor_, into.data(), into.size(), static_cast<off_t>(begin_ + position_))
                   : ::read(descriptor_, into.data(), into.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return fail(Errc::io, "cannot be read: " + reason_text(errno));
      position_ += static_cast<std::uint64_t>(count);
      return static_cast<std::size_t>(count);
    }
  }

  [[nodiscard]] std::uint64_t position() const override { return position_; }
  [[nodiscard]] std::uint64_t begin() const { return begin_; }
  void enlarge_pipe() const { (void)::fcntl(descriptor_, F_SETPIPE_SZ, pipe_bytes); }

 private:
  int descriptor_;
  const Descriptor owned_;  // none for standard input
  bool regular_;
  std::uint64_t begin_ = 0;
  std::uint64_t position_ = 0;
};

struct Opened {
  std::unique_ptr<FileSource> file;
  struct stat status;
};

Result<Opened> open_file(const std::string& path) {
  const bool standard = path == standard_input;
  const int descriptor = standard ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0)
    return fail(errno == ENOENT ? Errc::not_found : Errc::io, "cannot be opened: " + reason_text(errno));
  Opened opened{};
  const bool regular = ::fstat(descriptor, &opened.status) == 0 && S_ISREG(opened.status.st_mode);
  opened.file = std::make_unique<FileSource>(descriptor, !standard, regular);
  return opened;
}

}  // namespace

std::string input_name(const std::string& path) {
  return path == standard_input ? "standard input" : path;
}

Result<std::unique_ptr<ByteSource>> open_input(const std::string& path, ItemFormat format) {
  auto opened = open_file(path);
  if (!opened) return opened.error();
  // A larger pipe means fewer switches between the writer and this reader. If the system refuses it, reading
  // goes on without.
  if (S_ISFIFO(opened->status.st_mode)) opened->file->enlarge_pipe();
  auto list = list_source(std::move(opened->file), format);
  if (!list) return list.error();
  return std::move(list->bytes);
}

Result<InputKind> look_at_input(const std::string& path, ItemFormat format) {
  // stat(), and not open(): the open of a named pipe would wait for its writer.
  struct stat status {};
  const int outcome = path == standard_input ? ::fstat(STDIN_FILENO, &status) : ::stat(path.c_str(), &status);
  if (outcome != 0)
    return fail(errno == ENOENT ? Errc::not_found : Errc::io, "cannot be opened: " + reason_text(errno));
  // Refused now, before hours are spent on the inputs that come first.
  if (S_ISDIR(status.st_mode)) return fail(Errc::io, "is a directory");
  if (!S_ISREG(status.st_mode)) return InputKind{};
  auto opened = open_file(path);
  if (!opened) return opened.error();
  const auto size = static_cast<std::uint64_t>(status.st_size);
  const std::uint64_t begin = opened->file->begin();
  const auto list = list_source(std::move(opened->file), format);
  if (!list) return list.error();
  return InputKind{.byte_count = size - std::min(size, begin), .cheap_to_repeat = !list->compressed};
}

}  // namespace sepal::tools
