// Files of NumPy's: what is written is read, what NumPy writes is read, and nothing else is.
#include "tools/npy.h"

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace seam::tool {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file of version 1.0 with this header, a line end added, and these elements.
std::string File(const std::string& header, absl::string_view elements) {
  const size_t length = header.size() + 1;
  return absl::StrCat("\x93NUMPY", absl::string_view("\x01\x00", 2),
                      std::string{static_cast<char>(length % 256), static_cast<char>(length / 256)},
                      header, "\n", elements);
}

std::string Refusal(absl::string_view content, DType dtype = DType::F32) {
  const absl::StatusOr<HostTensor> tensor = ParseNpy(content, dtype);
  if (tensor.ok()) return "accepted";
  EXPECT_EQ(tensor.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(tensor.status().message());
}

TEST(Npy, EveryTypeAndRankComesBack) {
  for (int d = 0; d < kNumDTypes; ++d) {
    for (const std::vector<int64_t>& shape :
         std::vector<std::vector<int64_t>>{{}, {1}, {7}, {0, 3}, {2, 3, 5}, {1, 1, 1, 1, 4}}) {
      absl::StatusOr<HostTensor> tensor = HostTensor::Make(static_cast<DType>(d), shape);
      ASSERT_TRUE(tensor.ok()) << tensor.status();
      FillRandom(*tensor, 1);
      const absl::StatusOr<std::string> content = FormatNpy(*tensor);
      ASSERT_TRUE(content.ok()) << content.status();
      EXPECT_EQ((content->size() - tensor->data.size()) % 64, 0);
      const absl::StatusOr<HostTensor> read = ParseNpy(*content, tensor->dtype);
      ASSERT_TRUE(read.ok()) << tensor->ShapeString() << ": " << read.status();
      EXPECT_EQ(read->shape, tensor->shape);
      EXPECT_EQ(read->strides, tensor->strides);
      EXPECT_EQ(read->data, tensor->data);
    }
  }
}

TEST(Npy, StridedTensorsAreWrittenRowMajor) {
  absl::StatusOr<HostTensor> tensor = HostTensor::MakeStrided(DType::U8, {2, 3}, {1, 4});
  ASSERT_TRUE(tensor.ok());
  tensor->data = std::vector<std::byte>(tensor->data.size(), std::byte{9});
  const char elements[] = {1, 4, 9, 9, 2, 5, 9, 9, 3, 6};
  std::memcpy(tensor->data.data(), elements, sizeof elements);
  const absl::StatusOr<std::string> content = FormatNpy(*tensor);
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_EQ(content->substr(content->size() - 7), "\n\1\2\3\4\5\6");
}

TEST(Npy, ColumnMajorFilesKeepTheirOrder) {
  const absl::StatusOr<HostTensor> tensor =
      ParseNpy(File("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", "\1\4\2\5\3\6"),
               DType::U8);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_THAT(tensor->strides, ElementsAre(1, 2));
  std::vector<int64_t> values;
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 3; ++j)
      values.push_back(
          static_cast<int64_t>(tensor->data[i * tensor->strides[0] + j * tensor->strides[1]]));
  }
  EXPECT_THAT(values, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Npy, OtherSpellings) {
  const std::string four(4, '\0');
  for (const char* header :
       {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }",
        "{\"shape\":(1,),\"descr\":\"<f4\",\"fortran_order\":False}",
        "  { 'fortran_order' : False , 'shape' : ( 1 , ) , 'descr' : '<f4' , }   "}) {
    EXPECT_EQ(Refusal(File(header, four)), "accepted") << header;
  }
  EXPECT_EQ(
      Refusal(File("{'descr': '<u2', 'fortran_order': False, 'shape': (2,), }", four), DType::BF16),
      "accepted");
  std::string second = absl::StrCat("\x93NUMPY", absl::string_view("\x02\x00\x33\x00\x00\x00", 6),
                                    "{'descr': '<f4', 'fortran_order': False, 'shape': ()}", four);
  second[8] = static_cast<char>(second.size() - 12 - 4);
  EXPECT_EQ(Refusal(second), "accepted");
}

TEST(Npy, DamagedFilesAreRefused) {
  EXPECT_THAT(Refusal(""), HasSubstr("no .npy file"));
  EXPECT_THAT(Refusal("\x93NUMPY"), HasSubstr("no .npy file"));
  EXPECT_THAT(Refusal(absl::string_view("\x93NUMPY\x04\x00\x00\x00", 10)),
              HasSubstr("version is 4.0"));
  EXPECT_THAT(Refusal(absl::string_view("\x93NUMPY\x01\xa6\x00\x00", 10)),
              HasSubstr("version is 1.166, expected 1.0, 2.0 or 3.0"));
  EXPECT_THAT(Refusal(absl::string_view("\x93NUMPY\x01\x00\xff\xff{", 11)),
              HasSubstr("ends in its header"));
  EXPECT_THAT(Refusal(absl::string_view("\x93NUMPY\x02\x00\xff\xff\xff\xff{", 13)),
              HasSubstr("ends in its header"));
  const std::string four(4, '\0');
  for (const char* header :
       {"", "{}", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1.0,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,)} {",
        "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4, 'fortran_order': False, 'shape': (1,)}"}) {
    EXPECT_THAT(Refusal(File(header, four)), HasSubstr("no description of an array")) << header;
  }
  const auto with_shape = [](const std::string& shape) {
    return absl::StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': ", shape, "}");
  };
  EXPECT_EQ(Refusal(File(with_shape("(2,)"), four)),
            "it has 4 bytes of elements, expected those of f32[2]");
  for (const char* shape : {"(4611686018427387904, 4)", "(9223372036854775807,)", "()  "}) {
    EXPECT_THAT(Refusal(File(with_shape(shape), "12345")), HasSubstr("it has 5 bytes")) << shape;
  }
  EXPECT_THAT(Refusal(File(with_shape("(0,)"), four)), HasSubstr("expected none"));
  EXPECT_THAT(Refusal(File(with_shape("(0, 4611686018427387904, 4611686018427387904)"), "")),
              HasSubstr("too large"));
  EXPECT_EQ(Refusal(File(with_shape("(1,)"), four), DType::BF16),
            "its elements are '<f4', expected bf16, '<V2' or '|V2' or '<u2'");
  EXPECT_THAT(Refusal(File("{'descr': '>f4', 'fortran_order': False, 'shape': (1,)}", four)),
              HasSubstr("'>f4'"));
  EXPECT_THAT(
      Refusal(File("{'descr': '|b1', 'fortran_order': False, 'shape': (1,)}", "\2"), DType::Bool),
      HasSubstr("neither 0 nor 1"));
}

TEST(Npy, CutOffAndAlteredAnywhere) {
  absl::StatusOr<HostTensor> tensor = HostTensor::Make(DType::F32, {2, 3});
  ASSERT_TRUE(tensor.ok());
  const std::string content = *FormatNpy(*tensor);
  for (size_t length = 0; length < content.size(); ++length)
    EXPECT_NE(Refusal(absl::string_view(content).substr(0, length)), "accepted") << length;
  // Nothing but a crash can go wrong here: some alterations leave a good file.
  for (size_t i = 0; i < content.size(); ++i) {
    for (char c : {'\0', '\xff', '(', '9', '\''}) {
      std::string altered = content;
      altered[i] = c;
      (void)ParseNpy(altered, DType::F32);
    }
  }
}

}  // namespace
}  // namespace seam::tool
