#include <sepal/resp/request_parser.hpp>
#include <sepal/settings/password.hpp>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <system_error>

namespace sepal::settings {

Result<std::string> read_password_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const int reason = errno;
    return fail(reason == ENOENT ? Errc::not_found : Errc::io,
                path + ": the password file cannot be opened: " + std::generic_category().message(reason));
  }
  // Room for the longest password and the end of its line (CR LF). A longer line has no end within the room,
  // and is refused below. So the memory is bounded, whatever the path leads to.
  std::string text(resp::unauthenticated_bulk_bytes_max + 2, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (!file && !file.eof()))
    return fail(Errc::io,
                path + ": the password file cannot be read: " + std::generic_category().message(errno));
  text.resize(static_cast<std::size_t>(file.gcount()));
  text.resize(std::min(text.find('\n'), text.size()));
  // An editor may have written the line with CRLF.
  if (text.ends_with('\r')) text.pop_back();
  // An empty password would let every client in.
  if (text.empty())
    return fail(Errc::not_found, path + ": the password file has no password in its first line");
  // No client could send it: before the login its words are bounded.
  if (text.size() > resp::unauthenticated_bulk_bytes_max)
    return fail(Errc::too_large, path + ": the password is longer than " +
                                     std::to_string(resp::unauthenticated_bulk_bytes_max) + " bytes");
  return text;
}

}  // namespace sepal::settings
