#include "tools/build/decompressor.hpp"

#include <string>
#include <utility>
#include <zlib.h>
#include <zstd.h>

namespace sepal::tools {
namespace {

constexpr std::size_t input_bytes = 128 << 10;

// The libraries. step() decompresses from `input` into `output`; each then is what is left of it. It returns
// whether a member or frame is whole, and all of its output is out.

class Gzip {
 public:
  static constexpr const char* name = "gzip";
  Gzip() = default;
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;
  ~Gzip() { inflateEnd(&stream_); }

  [[nodiscard]] bool usable() const { return usable_; }

  Result<bool> step(std::span<char>& input, std::span<char>& output) {
    stream_.next_in = reinterpret_cast<Bytef*>(input.data());
    stream_.avail_in = static_cast<uInt>(input.size());
    stream_.next_out = reinterpret_cast<Bytef*>(output.data());
    stream_.avail_out = static_cast<uInt>(output.size());
    const int outcome = inflate(&stream_, Z_NO_FLUSH);
    input = input.last(stream_.avail_in);
    output = output.last(stream_.avail_out);
    // Another member may follow, as in files that `cat` has put together.
    if (outcome == Z_STREAM_END) return inflateReset(&stream_) == Z_OK;
    // Z_BUF_ERROR is no damage: zlib could not go on without more input.
    if (outcome == Z_OK || outcome == Z_BUF_ERROR) return false;
    return fail(Errc::damaged, stream_.msg != nullptr ? stream_.msg : zError(outcome));
  }

 private:
  static constexpr int gzip_only = 16;  // zlib adds it to the bits of the window
  z_stream stream_{};
  bool usable_ = inflateInit2(&stream_, MAX_WBITS + gzip_only) == Z_OK;
};

class Zstd {
 public:
  static constexpr const char* name = "zstd";
  [[nodiscard]] bool usable() const { return stream_ != nullptr; }

  Result<bool> step(std::span<char>& input, std::span<char>& output) {
    ZSTD_inBuffer in{.src = input.data(), .size = input.size(), .pos = 0};
    ZSTD_outBuffer out{.dst = output.data(), .size = output.size(), .pos = 0};
    const std::size_t outcome = ZSTD_decompressStream(stream_.get(), &out, &in);
    if (ZSTD_isError(outcome) != 0) return fail(Errc::damaged, ZSTD_getErrorName(outcome));
    input = input.subspan(in.pos);
    output = output.subspan(out.pos);
    return outcome == 0;
  }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };
  std::unique_ptr<ZSTD_DStream, Free> stream_{ZSTD_createDStream()};
};

template <class Library>
class Decompressor final : public ByteSource {
 public:
  explicit Decompressor(std::unique_ptr<ByteSource> compressed) : compressed_(std::move(compressed)) {}

  Result<std::size_t> read(std::span<char> into) override {
    // The constructor cannot return an error, so the first read does.
    if (!library_.usable()) return fail(Errc::out_of_memory, "there is no memory for " + name_);
    std::span<char> room = into;
    // A library may take input without any output, for example a header. To return 0 bytes would mean the
    // end.
    while (room.size() == into.size()) {
      if (rest_.empty() && !more_inside_) {
        const auto count = compressed_->read({input_.get(), input_bytes});
        if (!count) return count.error();
        // The data may only end behind a whole member or frame.
        if (*count == 0 && is_whole_) return std::size_t{0};
        if (*count == 0) return fail(Errc::damaged, "the " + name_ + " data ends too early");
        rest_ = {input_.get(), *count};
      }
      const auto whole = library_.step(rest_, room);
      if (!whole) return fail(Errc::damaged, "the " + name_ + " data is damaged: " + whole.error().detail);
      is_whole_ = *whole;
      // The library may hold output for which there was no room. That output needs no more input.
      more_inside_ = !is_whole_ && room.empty();
    }
    return into.size() - room.size();
  }

  [[nodiscard]] std::uint64_t position() const override { return compressed_->position(); }

 private:
  const std::string name_ = Library::name;
  std::unique_ptr<ByteSource> compressed_;
  Library library_;
  std::unique_ptr<char[]> input_ = std::make_unique_for_overwrite<char[]>(input_bytes);
  std::span<char> rest_;  // of input_
  bool is_whole_ = false;
  bool more_inside_ = false;
};

}  // namespace

std::unique_ptr<ByteSource> gzip_source(std::unique_ptr<ByteSource> compressed) {
  return std::make_unique<Decompressor<Gzip>>(std::move(compressed));
}

std::unique_ptr<ByteSource> zstd_source(std::unique_ptr<ByteSource> compressed) {
  return std::make_unique<Decompressor<Zstd>>(std::move(compressed));
}

}  // namespace sepal::tools
