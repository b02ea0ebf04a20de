// Writes the vectors of go-zero, Redisson and murmur3-128 for vectors.txt: see README.md.
//
// Needs the Debian packages golang-github-spaolacci-murmur3-dev, which is the hash that go-zero uses, and
// golang-github-minio-highwayhash-dev.
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"os"

	"github.com/minio/highwayhash"
	"github.com/spaolacci/murmur3"
)

// As getLocations of go-zero's core/bloom.
func goZero(data []byte, bits uint64, count int) []uint64 {
	positions := make([]uint64, count)
	for i := range positions {
		positions[i] = murmur3.Sum64(append(append([]byte{}, data...), byte(i))) % bits
	}
	return positions
}

// As hash of RedissonBloomFilter, with Redisson's key.
func redisson(data []byte, size uint64, iterations int) []uint64 {
	key := make([]byte, 32)
	for i, word := range []uint64{0x9e3779b97f4a7c15, 0xf39cc0605cedc834, 0x1082276bf3a27251, 0xf86c6a11d0c18e95} {
		binary.LittleEndian.PutUint64(key[8*i:], word)
	}
	sum := highwayhash.Sum128(data, key)
	hash1, hash2 := binary.LittleEndian.Uint64(sum[:8]), binary.LittleEndian.Uint64(sum[8:])
	positions := make([]uint64, iterations)
	hash := hash1
	for i := range positions {
		positions[i] = (hash & 0x7fffffffffffffff) % size
		if i%2 == 0 {
			hash += hash2
		} else {
			hash += hash1
		}
	}
	return positions
}

// h1 is the lower half of the number, as in Python's mmh3.hash128.
func murmur128(data []byte, bits uint64, count int, seed uint32) []uint64 {
	positions := make([]uint64, count)
	for i := range positions {
		h1, h2 := murmur3.Sum128WithSeed(data, seed+uint32(i))
		number := new(big.Int).Lsh(new(big.Int).SetUint64(h2), 64)
		number.Or(number, new(big.Int).SetUint64(h1))
		positions[i] = number.Mod(number, new(big.Int).SetUint64(bits)).Uint64()
	}
	return positions
}

func write(scheme string, bits uint64, count int, seed uint32, data []byte, positions []uint64) {
	fmt.Printf("%s %d %d %d %s", scheme, bits, count, seed, "x"+hex.EncodeToString(data))
	for _, position := range positions {
		fmt.Printf(" %d", position)
	}
	fmt.Println()
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		data, err := hex.DecodeString(lines.Text()[1:])
		if err != nil {
			panic(err)
		}
		for _, bits := range []uint64{1, 1000, 20000003, 1 << 32} {
			write("go-zero", bits, 14, 0, data, goZero(data, bits, 14))
		}
		for _, shape := range []struct {
			bits  uint64
			count int
		}{{1, 1}, {729, 5}, {95850583, 7}, {2*0x7fffffff - 1, 30}} {
			write("redisson", shape.bits, shape.count, 0, data, redisson(data, shape.bits, shape.count))
		}
		for _, shape := range []struct {
			bits  uint64
			count int
			seed  uint32
		}{{1000003, 7, 0}, {1 << 32, 20, 41}, {3, 3, 0xfffffffe}} {
			positions := murmur128(data, shape.bits, shape.count, shape.seed)
			write("murmur3-128", shape.bits, shape.count, shape.seed, data, positions)
		}
	}
}
