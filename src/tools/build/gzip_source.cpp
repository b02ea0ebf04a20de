#include <string>
#include <utility>
#include <zlib.h>

#include "tools/build/decompressor.hpp"

namespace sepal::tools {
namespace {

constexpr std::size_t input_bytes = 128 << 10;
constexpr int gzip_only = 16;  // zlib adds it to the bits of the window

class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(std::unique_ptr<ByteSource> compressed)
      : compressed_(std::move(compressed)),
        usable_(inflateInit2(&stream_, MAX_WBITS + gzip_only) == Z_OK),
        input_(std::make_unique_for_overwrite<char[]>(input_bytes)) {}
  ~GzipSource() override { inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  Result<std::size_t> read(std::span<char> into) override {
    // The constructor cannot return an error, so the first read does.
    if (!usable_) return fail(Errc::out_of_memory, "there is no memory for zlib");
    stream_.next_out = reinterpret_cast<Bytef*>(into.data());
    stream_.avail_out = static_cast<uInt>(into.size());
    // zlib may take input without any output, for example a header. To return 0 bytes would mean the end.
    while (stream_.avail_out == into.size()) {
      if (stream_.avail_in == 0) {
        const auto filled = fill();
        if (!filled) return filled.error();
        // The data may only end behind a whole member.
        if (!*filled && between_members_) return std::size_t{0};
        if (!*filled) return fail(Errc::damaged, "the gzip data ends too early");
      }
      if (auto done = inflate_some(); !done) return done.error();
    }
    return into.size() - stream_.avail_out;
  }

  [[nodiscard]] std::uint64_t position() const override { return compressed_->position(); }

 private:
  // False: the source has ended.
  Result<bool> fill() {
    const auto count = compressed_->read({input_.get(), input_bytes});
    if (!count) return count.error();
    stream_.next_in = reinterpret_cast<Bytef*>(input_.get());
    stream_.avail_in = static_cast<uInt>(*count);
    return *count > 0;
  }

  Result<void> inflate_some() {
    between_members_ = false;
    const int outcome = inflate(&stream_, Z_NO_FLUSH);
    if (outcome == Z_STREAM_END) {
      between_members_ = true;
      // Another member may follow, as in files that `cat` has put together.
      inflateReset(&stream_);
      return {};
    }
    // Z_BUF_ERROR is no damage: zlib could not go on without more input.
    if (outcome == Z_OK || outcome == Z_BUF_ERROR) return {};
    return fail(Errc::damaged, std::string("the gzip data is damaged: ") +
                                   (stream_.msg != nullptr ? stream_.msg : zError(outcome)));
  }

  std::unique_ptr<ByteSource> compressed_;
  z_stream stream_{};
  bool usable_;
  bool between_members_ = false;
  std::unique_ptr<char[]> input_;
};

}  // namespace

std::unique_ptr<ByteSource> gzip_source(std::unique_ptr<ByteSource> compressed) {
  return std::make_unique<GzipSource>(std::move(compressed));
}

}  // namespace sepal::tools
