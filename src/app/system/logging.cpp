#include "app/system/logging.hpp"

#include <sepal/base/descriptor.hpp>
#include <sepal/log/event.hpp>
#include <sepal/log/standard_streams.hpp>

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string_view>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "app/system/crash_report.hpp"

namespace sepal::app {
namespace {

constexpr mode_t log_file_mode = 0666;  // reduced by the umask

Error cannot_open(const std::string& path, int error_number) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::error_code unknown;
  const bool no_folder =
      error_number == ENOENT && !folder.empty() && !std::filesystem::exists(folder, unknown);
  const char* const advice =
      error_number == EACCES
          ? "; sepald's user has to write there: give it the file (chown), or name another with --log-file"
          : "";
  return fail(Errc::io, "cannot open the log file " + path + ": " +
                            (no_folder ? "there is no folder " + folder.string()
                                       : std::generic_category().message(error_number) + advice));
}

// By another name it may be the same file, pipe or terminal: /dev/stderr, for example.
bool are_one(int descriptor, int other) {
  struct stat status {};
  struct stat other_status {};
  if (::fstat(descriptor, &status) != 0 || ::fstat(other, &other_status) != 0) return false;
  return (status.st_dev == other_status.st_dev && status.st_ino == other_status.st_ino) ||
         (::isatty(descriptor) == 1 && ::isatty(other) == 1);
}

// Appends lines to a file. The file can be opened anew while other threads log.
class LogFile final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit LogFile(std::string path) : path_(std::move(path)) {}
  Result<void> open() {
    // Opened before the lock, and the old file is closed after it: threads that log do not wait for the disk.
    // After an error, the old file stays in use.
    Descriptor opened(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, log_file_mode));
    if (!opened.is_open()) return cannot_open(path_, errno);
    const std::lock_guard lock(mutex_);
    // First, because the old descriptor is closed at the end.
    set_crash_descriptor(opened.number());
    std::swap(descriptor_, opened);
    return {};
  }
  bool is_at(int descriptor) {
    const std::lock_guard lock(mutex_);
    return are_one(descriptor_.number(), descriptor);
  }

 protected:
  // spdlog catches the exception, and reports it on standard error at most once a second.
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    for (std::size_t at = 0; at < line.size();) {
      const ssize_t written = ::write(descriptor_.number(), line.data() + at, line.size() - at);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) spdlog::throw_spdlog_ex("cannot write to the log file " + path_, errno);
      at += static_cast<std::size_t>(written);
    }
  }
  void flush_() override {}

 private:
  std::string path_;
  Descriptor descriptor_;
};

LogFile* log_file() {
  return dynamic_cast<LogFile*>(spdlog::default_logger_raw()->sinks().front().get());
}

void complain_beside_log(const std::string& reason) {
  LogFile* const file = log_file();
  // The line is on standard error already.
  if (file == nullptr || file->is_at(STDERR_FILENO)) return;
  complain(reason);
}

// The priority that systemd's journal reads before a line: those of syslog(3).
class JournalPriority final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& to) override {
    to.append(priority_of(message.level));
  }
  [[nodiscard]] std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JournalPriority>();
  }

 private:
  static std::string_view priority_of(spdlog::level::level_enum level) {
    switch (level) {
      case spdlog::level::err: return "<3>";
      case spdlog::level::warn: return "<4>";
      case spdlog::level::info: return "<6>";
      default: return "<7>";
    }
  }
};

// log::body_of() makes the rest of a line. The journal has a time of its own for each line.
std::string pattern_of(log::Format format, bool in_journal) {
  const std::string priority = in_journal ? "%*" : "";
  if (format == log::Format::json) return priority + R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v)";
  return priority + (in_journal ? "" : "%Y-%m-%d %H:%M:%S.%e ") + "%-7l %v";
}

}  // namespace

Result<void> start_logging(const settings::LogOptions& options, command::LogLevel level) {
  spdlog::sink_ptr sink;
  if (options.file.empty()) {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  } else {
    auto file = std::make_shared<LogFile>(options.file);
    if (auto opened = file->open(); !opened) return opened;
    sink = std::move(file);
  }
  auto logger = std::make_shared<spdlog::logger>("sepald", std::move(sink));
  const auto format = options.format == settings::LogFormat::json ? log::Format::json : log::Format::text;
  const bool in_journal = options.file.empty() && log::standard_error_is_journal();
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<JournalPriority>('*').set_pattern(pattern_of(format, in_journal));
  logger->set_formatter(std::move(formatter));
  log::set_format(format);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  set_log_level(level);
  return {};
}

void complain(const std::string& reason) {
  std::fprintf(stderr, "%ssepald: %s\n", log::standard_error_is_journal() ? "<3>" : "", reason.c_str());
}

Result<Reopened> reopen_log() {
  LogFile* const file = log_file();
  if (file == nullptr) return Reopened::no;
  if (const auto opened = file->open(); !opened) return opened.error();
  return Reopened::yes;
}

void set_log_level(command::LogLevel level) {
  spdlog::set_level(spdlog::level::from_str(std::string(name_of(level))));
}

void log_start_failed(const std::string& reason) {
  log::error("start_failed", reason);
  complain_beside_log(reason);
}

void log_too_little(const std::string& reason) {
  log::error("too_little", "the system gave too little", {{"reason", reason}});
  complain_beside_log("the system gave too little: " + reason);
}

}  // namespace sepal::app
