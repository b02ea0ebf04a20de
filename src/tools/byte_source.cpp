#include "byte_source.hpp"

#include <sepal/base/descriptor.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "decompressor.hpp"
#include "text.hpp"

namespace sepal::tools {
namespace {

using namespace std::string_view_literals;

constexpr int pipe_bytes = 1 << 20;
constexpr std::size_t magic_bytes = 4;

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

  Result<std::size_t> read(std::span<char> into) override {
    // A pipe cannot give the bytes of peek() a second time, so they come from head_.
    if (head_taken_ == head_.size()) return read_more(into);
    const std::string_view rest = std::string_view(head_).substr(head_taken_);
    const std::size_t count = std::min(rest.size(), into.size());
    std::memcpy(into.data(), rest.data(), count);
    head_taken_ += count;
    return count;
  }

  [[nodiscard]] std::uint64_t position() const override { return position_; }
  [[nodiscard]] std::uint64_t begin() const { return begin_; }
  void enlarge_pipe() const { (void)::fcntl(descriptor_, F_SETPIPE_SZ, pipe_bytes); }

  // The first magic_bytes bytes, or fewer if the source has fewer. read() returns them as well.
  Result<std::string_view> peek() {
    std::array<char, magic_bytes> bytes;
    // A pipe may give fewer bytes than were asked for.
    while (head_.size() < magic_bytes) {
      const auto count = read_more(std::span(bytes).first(magic_bytes - head_.size()));
      if (!count) return count.error();
      if (*count == 0) break;
      head_.append(bytes.data(), *count);
    }
    return std::string_view(head_);
  }

 private:
  // Reads a regular file by offset, so that it can be read again, even through the same descriptor.
  Result<std::size_t> read_more(std::span<char> into) {
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

  int descriptor_;
  const Descriptor owned_;  // none for standard input
  bool regular_;
  std::uint64_t begin_ = 0;
  std::uint64_t position_ = 0;
  std::string head_;
  std::size_t head_taken_ = 0;
};

bool is_gzip(std::string_view head) {
  return head.starts_with("\x1f\x8b"sv);
}

// The magic of a frame, or of a skippable frame. The first byte of the latter's magic has four free bits.
bool is_zstd(std::string_view head) {
  return head == "\x28\xb5\x2f\xfd"sv ||
         (head.size() == magic_bytes && (head[0] & '\xf0') == '\x50' && head.substr(1) == "\x2a\x4d\x18"sv);
}

enum class Coding : std::uint8_t { none, gzip, zstd };

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

Result<Coding> coding_of(FileSource& file) {
  const auto head = file.peek();
  if (!head) return head.error();
  if (is_gzip(*head)) return Coding::gzip;
  return is_zstd(*head) ? Coding::zstd : Coding::none;
}

}  // namespace

std::string input_name(const std::string& path) {
  return path == standard_input ? "standard input" : path;
}

Result<std::unique_ptr<ByteSource>> open_input(const std::string& path) {
  auto opened = open_file(path);
  if (!opened) return opened.error();
  // A larger pipe means fewer switches between the writer and this reader. If the system refuses it, reading
  // goes on without.
  if (S_ISFIFO(opened->status.st_mode)) opened->file->enlarge_pipe();
  const auto coding = coding_of(*opened->file);
  if (!coding) return coding.error();
  std::unique_ptr<ByteSource> source = std::move(opened->file);
  if (*coding == Coding::gzip) return gzip_source(std::move(source));
  if (*coding == Coding::zstd) return zstd_source(std::move(source));
  return source;
}

Result<InputKind> look_at_input(const std::string& path) {
  // stat(), and not open(): the open of a named pipe would wait for its writer.
  struct stat status {};
  const int outcome = path == standard_input ? ::fstat(STDIN_FILENO, &status) : ::stat(path.c_str(), &status);
  if (outcome != 0)
    return fail(errno == ENOENT ? Errc::not_found : Errc::io, "cannot be opened: " + reason_text(errno));
  // Refused now, before hours are spent on the inputs that come first.
  if (S_ISDIR(status.st_mode)) return fail(Errc::io, "is a directory");
  if (!S_ISREG(status.st_mode)) return InputKind{};
  const auto opened = open_file(path);
  if (!opened) return opened.error();
  const auto coding = coding_of(*opened->file);
  if (!coding) return coding.error();
  const auto size = static_cast<std::uint64_t>(status.st_size);
  return InputKind{.byte_count = size - std::min(size, opened->file->begin()),
                   .cheap_to_repeat = *coding == Coding::none};
}

}  // namespace sepal::tools
