-- expect: refused, the message names: sql:2:70: stream 'a': the format AVRO-CONFLUENT is not available yet | sql:3:65: stream 'b': the format AVRO is not | sql:4:125: stream 'c': the format AVRO is not | sql:5:65: stream 'd': the format PROTOBUF | stream 'e': the format DEBEZIUM-JSON
CREATE TABLE a (x INT) WITH ('connector' = 'kafka', 'value.format' = 'avro-confluent', 'topic' = 'a', 'value.avro-confluent.url' = 'http://localhost:8081');
CREATE STREAM b (x INT) WITH (kafka_topic = 'b', value_format = 'avro', partitions = 1);
CREATE SOURCE c WITH (connector = 'kafka', topic = 'c', properties.bootstrap.server = 'localhost:9092') FORMAT PLAIN ENCODE AVRO (schema.registry = 'http://127.0.0.1:8081');
CREATE STREAM d (x INT) WITH (kafka_topic = 'd', value_format = 'PROTOBUF');
CREATE TABLE e (x INT) WITH ('connector' = 'kafka', 'topic' = 'e', 'format' = 'debezium-json');
