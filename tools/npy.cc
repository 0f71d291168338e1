#include "tools/npy.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ir/status.h"
#include "runtime/tensor.h"

namespace seam::tool {
namespace {

constexpr absl::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlignment = 64;               // Of the elements in a file.
constexpr int kMaxRank = 64;                    // As in NumPy.
constexpr size_t kMaxHeader = size_t{1} << 20;  // That a file is read for.

// NumPy's names of an element type; the first one is written.
std::vector<absl::string_view> Descriptions(DType dtype) {
  switch (dtype) {
    case DType::F64:
      return {"<f8"};
    case DType::F32:
      return {"<f4"};
    case DType::F16:
      return {"<f2"};
    case DType::BF16:
      return {"<V2", "|V2", "<u2"};
    case DType::F8E4M3:
    case DType::F8E5M2:
      return {"|V1", "<V1", "|u1"};
    case DType::I64:
      return {"<i8"};
    case DType::I32:
      return {"<i4"};
    case DType::I16:
      return {"<i2"};
    case DType::I8:
      return {"|i1"};
    case DType::U8:
      return {"|u1"};
    case DType::Bool:
      return {"|b1"};
  }
  return {};
}

struct Header {
  std::string description;
  bool column_major = false;
  std::vector<int64_t> shape;
};

// Reads the literal of a Python dict with the keys of a header, each once, in any order.
class HeaderParser {
 public:
  explicit HeaderParser(absl::string_view text) : rest_(text) {}

  std::optional<Header> Parse() {
    Header header;
    std::vector<std::string> keys;
    if (!Take("{")) return std::nullopt;
    while (!Take("}")) {
      const std::optional<std::string> key = String();
      if (!key || !Take(":") || std::find(keys.begin(), keys.end(), *key) != keys.end() ||
          !Value(*key, header)) {
        return std::nullopt;
      }
      keys.push_back(*key);
      if (Take(",")) continue;
      if (!Take("}")) return std::nullopt;
      break;
    }
    SkipSpaces();
    if (keys.size() != 3 || !rest_.empty()) return std::nullopt;
    return header;
  }

 private:
  void SkipSpaces() {
    while (!rest_.empty() && std::isspace(static_cast<unsigned char>(rest_[0])))
      rest_.remove_prefix(1);
  }
  bool Take(absl::string_view token) {
    SkipSpaces();
    if (!absl::StartsWith(rest_, token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  std::optional<std::string> String() {
    SkipSpaces();
    if (rest_.empty() || (rest_[0] != '\'' && rest_[0] != '"')) return std::nullopt;
    const size_t end = rest_.find(rest_[0], 1);
    if (end == absl::string_view::npos) return std::nullopt;
    std::string string(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return string;
  }
  bool Value(absl::string_view key, Header& header) {
    if (key == "descr") {
      const std::optional<std::string> description = String();
      header.description = description.value_or("");
      return description.has_value();
    }
    if (key == "fortran_order") {
      header.column_major = Take("True");
      return header.column_major || Take("False");
    }
    return key == "shape" && Shape(header.shape);
  }
  bool Shape(std::vector<int64_t>& shape) {
    if (!Take("(")) return false;
    while (!Take(")")) {
      SkipSpaces();
      const size_t digits = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
      int64_t extent = 0;
      if (!absl::SimpleAtoi(rest_.substr(0, digits), &extent)) return false;
      rest_.remove_prefix(digits);
      shape.push_back(extent);
      if (shape.size() > kMaxRank) return false;
      if (!Take(",")) return Take(")");
    }
    return true;
  }

  absl::string_view rest_;
};

// The number whose bytes, lowest first, these are.
size_t LittleEndian(absl::string_view bytes) {
  size_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

template <typename... Parts>
absl::Status Bad(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

struct Range {
  size_t begin = 0, end = 0;
};

// Where the header is in a file that begins with `content`; empty where that does not say.
Range HeaderRange(absl::string_view content) {
  if (!absl::StartsWith(content, kMagic) || content.size() < kMagic.size() + 2) return {};
  const size_t length_at = kMagic.size() + 2, length_bytes = content[kMagic.size()] == 1 ? 2 : 4;
  if (content.size() < length_at + length_bytes) return {};
  const size_t begin = length_at + length_bytes;
  return {begin, begin + LittleEndian(content.substr(length_at, length_bytes))};
}

// What a file says of its elements ahead of them.
struct Layout {
  Header header;
  std::string type;
  size_t begin = 0;   // Of the elements.
  int64_t bytes = 0;  // Of all elements; -1 where 64 bits do not hold the number.
};

absl::StatusOr<Layout> LayoutOf(absl::string_view content, DType dtype) {
  if (!absl::StartsWith(content, kMagic) || content.size() < kMagic.size() + 2)
    return Bad("it is no .npy file");
  const int version = static_cast<unsigned char>(content[kMagic.size()]);
  const int minor = static_cast<unsigned char>(content[kMagic.size() + 1]);
  if (version < 1 || version > 3 || minor != 0)
    return Bad("its version is ", version, ".", minor, ", expected 1.0, 2.0 or 3.0");
  Layout layout;
  const Range range = HeaderRange(content);
  if (range.begin == 0 || content.size() < range.end) return Bad("it ends in its header");
  layout.begin = range.end;
  const std::optional<Header> header =
      HeaderParser(content.substr(range.begin, range.end - range.begin)).Parse();
  if (!header) return Bad("its header is no description of an array");
  layout.header = *header;

  const std::vector<absl::string_view> descriptions = Descriptions(dtype);
  if (std::find(descriptions.begin(), descriptions.end(), header->description) ==
      descriptions.end()) {
    return Bad("its elements are '", absl::CHexEscape(header->description), "', expected ",
               DTypeName(dtype), ", '", absl::StrJoin(descriptions, "' or '"), "'");
  }
  layout.type = absl::StrCat(DTypeName(dtype), "[", absl::StrJoin(header->shape, ", "), "]");
  layout.bytes = DTypeBytes(dtype);
  bool overflow = false, empty = false;
  for (int64_t extent : header->shape) {
    empty |= extent == 0;
    overflow |= __builtin_mul_overflow(layout.bytes, extent, &layout.bytes);
  }
  if (overflow) layout.bytes = -1;
  if (empty) layout.bytes = 0;
  return layout;
}

}  // namespace

absl::StatusOr<HostTensor> ReadNpy(const std::string& path, DType dtype) {
  std::FILE* file = path == "-" ? stdin : std::fopen(path.c_str(), "rb");
  if (file == nullptr)
    return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
  std::string content;
  bool failed = false;
  const auto read_to = [&](size_t size) {
    char buffer[1 << 16];
    while (!failed && content.size() < size) {
      const size_t n = std::fread(buffer, 1, std::min(sizeof buffer, size - content.size()), file);
      content.append(buffer, n);
      failed = std::ferror(file) != 0;
      if (n == 0) return;
    }
  };
  read_to(kMagic.size() + 2 + 4);
  read_to(std::min(HeaderRange(content).end, kMaxHeader));
  const absl::StatusOr<Layout> layout = LayoutOf(content, dtype);
  // One byte more, to see whether the file ends there.
  if (layout.ok() && layout->bytes >= 0) read_to(layout->begin + layout->bytes + 1);
  const int error = errno;
  if (file != stdin) std::fclose(file);
  if (failed)
    return absl::NotFoundError(absl::StrCat("cannot read ", path, ": ", std::strerror(error)));
  if (!layout.ok()) return layout.status();
  if (layout->bytes >= 0 && content.size() > layout->begin + layout->bytes)
    return Bad("it goes on behind the elements of ", layout->type);
  return ParseNpy(content, dtype);
}

absl::StatusOr<HostTensor> ParseNpy(absl::string_view content, DType dtype) {
  SEAM_ASSIGN_OR_RETURN(const Layout layout, LayoutOf(content, dtype));
  const Header& header = layout.header;
  content.remove_prefix(layout.begin);
  const bool empty = layout.bytes == 0;
  // Before any memory is taken.
  if (!empty && (layout.bytes < 0 || static_cast<uint64_t>(layout.bytes) != content.size())) {
    return Bad("it has ", content.size(), " bytes of elements, expected those of ", layout.type);
  }
  if (empty && !content.empty())
    return Bad("it has ", content.size(), " bytes of elements, expected none for ", layout.type);
  if (empty) return HostTensor::Make(dtype, header.shape);
  if (dtype == DType::Bool &&
      std::any_of(content.begin(), content.end(), [](char c) { return c != 0 && c != 1; })) {
    return Bad("an element of ", layout.type, " is neither 0 nor 1");
  }

  std::vector<int64_t> strides = RowMajorStrides(header.shape);
  if (header.column_major) {
    strides = RowMajorStrides(std::vector<int64_t>(header.shape.rbegin(), header.shape.rend()));
    std::reverse(strides.begin(), strides.end());
  }
  SEAM_ASSIGN_OR_RETURN(HostTensor tensor, HostTensor::MakeStrided(dtype, header.shape, strides));
  std::memcpy(tensor.data.data(), content.data(), content.size());
  return tensor;
}

absl::StatusOr<std::string> FormatNpy(const HostTensor& tensor) {
  std::string header = absl::StrCat("{'descr': '", Descriptions(tensor.dtype)[0],
                                    "', 'fortran_order': False, 'shape': (");
  for (int64_t extent : tensor.shape) absl::StrAppend(&header, extent, ", ");
  absl::StrAppend(&header, "), }");
  // Magic, version and length take ten bytes, the line end one.
  header.append(kAlignment - 1 - (header.size() + 10) % kAlignment, ' ');
  header += '\n';
  std::string content = absl::StrCat(kMagic, absl::string_view("\x01\x00", 2));
  content += static_cast<char>(header.size() % 256);
  content += static_cast<char>(header.size() / 256);
  content += header;

  SEAM_ASSIGN_OR_RETURN(HostTensor row_major, HostTensor::Make(tensor.dtype, tensor.shape));
  // A view need not be const; nothing writes to the tensor.
  SEAM_RETURN_IF_ERROR(CopyElements(ViewOf(const_cast<HostTensor&>(tensor)), ViewOf(row_major)));
  content.append(reinterpret_cast<const char*>(row_major.data.data()), row_major.data.size());
  return content;
}

}  // namespace seam::tool
