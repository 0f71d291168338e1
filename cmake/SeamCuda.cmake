# Finds the CUDA headers (cuda.h, nvrtc.h): the toolkit's, else those that tools/setup unpacked from
# the PyPI wheels into .deps/cuda. Only headers are needed to build; the libraries are opened at run time.
find_path(SEAM_CUDA_INCLUDE_DIR NAMES nvrtc.h
          HINTS ${CMAKE_SOURCE_DIR}/.deps/cuda/include $ENV{CUDA_HOME}/include
                /usr/local/cuda/include /opt/cuda/include)
if(NOT SEAM_CUDA_INCLUDE_DIR OR NOT EXISTS ${SEAM_CUDA_INCLUDE_DIR}/cuda.h)
  message(FATAL_ERROR "CUDA headers (cuda.h, nvrtc.h) not found: run tools/setup, or set SEAM_CUDA_INCLUDE_DIR")
endif()
