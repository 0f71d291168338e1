// Reads the text of a Fusion from a file or from standard input.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "ir/status.h"
#include "ir/text/parser.h"

namespace seam {
namespace {

absl::Status ErrnoError(int error, absl::string_view sentence) {
  const std::string text = absl::StrCat(sentence, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(text);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(text);
  return absl::UnavailableError(text);
}

// All that `fd` gives, up to one byte more than the parser takes.
absl::StatusOr<std::string> ReadAll(int fd, const std::string& name) {
  std::string text;
  size_t size = 0;
  while (text.size() <= static_cast<size_t>(kMaxTextBytes)) {
    if (size == text.size()) text.resize(std::max<size_t>(2 * size, 1 << 16));
    const ssize_t got = read(fd, text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoError(errno, absl::StrCat("cannot read ", name));
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  return text;
}

}  // namespace

absl::StatusOr<Fusion> LoadFusion(absl::string_view path) {
  ParseOptions options;
  if (path == "-") {
    options.file_name = "<stdin>";
    SEAM_ASSIGN_OR_RETURN(const std::string text, ReadAll(STDIN_FILENO, "standard input"));
    return ParseFusion(text, options);
  }
  options.file_name = std::string(path);
  const int fd = open(options.file_name.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoError(errno, absl::StrCat("cannot open ", path));
  struct stat info;
  absl::StatusOr<std::string> text;
  if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
    text = absl::UnavailableError(
        absl::StrCat("cannot read ", path, ": it is a directory, expected a file"));
  } else {
    text = ReadAll(fd, options.file_name);
  }
  close(fd);
  SEAM_RETURN_IF_ERROR(text.status());
  return ParseFusion(*text, options);
}

}  // namespace seam
